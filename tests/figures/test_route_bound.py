"""A bound on what is left of a way spares a search many of its ways, and changes no route."""

from __future__ import annotations

from pathlib import Path
from unittest.mock import Mock

import pytest
from bench.programs import layers
from figures.test_flaws import random_figures
from tier import THOROUGH

import xg
from xg.figures.layout.choose_routes import EdgeWays, Search
from xg.figures.layout.placement import PlacedFigure
from xg.figures.layout.run_engine import layout
from xg.figures.model.figure import Figure

Ways = dict[bool, tuple[PlacedFigure, int]]
SEEDS = range(40, 52 if THOROUGH else 46)


def _searched(figure: Figure, *, bounded: bool) -> tuple[PlacedFigure, int]:
    """The figure's layout, and how many ways were continued by a gap for it."""
    count = 0
    continued = Search._next_states  # pyright: ignore[reportPrivateUsage]

    def counted(self: Search, *targets: object) -> object:
        nonlocal count
        count += len(self._states)  # pyright: ignore[reportPrivateUsage]
        return continued(self, *targets)  # pyright: ignore[reportArgumentType]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Search, "_next_states", counted)
        if not bounded:
            patch.setattr(EdgeWays, "_bound", Mock(return_value=None))
        return layout(figure), count


@pytest.fixture(scope="module")
def long_ways(tmp_path_factory: pytest.TempPathFactory) -> Ways:
    """The backward figure of two layers written out, laid out with a bound and without."""
    file: Path = tmp_path_factory.mktemp("long") / "layers.xg"
    file.write_text(layers(2), encoding="utf-8")
    figure = xg.compile(file).figure("backward")
    return {bounded: _searched(figure, bounded=bounded) for bounded in (True, False)}


def test_routes_are_those_without_a_bound(long_ways: Ways) -> None:
    assert long_ways[True][0] == long_ways[False][0]
    for figure in (one for seed in SEEDS for one in random_figures(seed)):
        assert _searched(figure, bounded=True)[0] == _searched(figure, bounded=False)[0]


def test_fewer_ways_are_continued(long_ways: Ways) -> None:
    bounded, unbounded = (long_ways[one][1] for one in (True, False))
    assert 4 * bounded < 3 * unbounded, (bounded, unbounded)
