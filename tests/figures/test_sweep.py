"""The sweep over figures in all options: it draws each of them, and tells what is wrong."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from figures import flaws, sweep, test_flaws
from figures.hand_made import mlp_backward
from figures.shipped_figures import LIBRARY

import xg
from xg.figures import paint_figure
from xg.figures.draw.glyph import Display
from xg.figures.layout.field import free
from xg.figures.layout.placement import PlacedFigure
from xg.figures.layout.request import field_of, key_of
from xg.figures.model.figure import Figure


def test_every_view_is_looked_at_in_every_option() -> None:
    count, found = sweep.of_case((LIBRARY / "notation" / "embedding.xg", None))
    assert count >= 2 * 8  # two views, each as it is, in other options and with remarks
    assert found == []


def test_branches_of_a_value_pass_the_label_of_one_of_them_straight() -> None:
    _, placed = paint_figure(
        xg.compile(LIBRARY / "examples" / "unet.xg").figure("overview", depth=0)
    )
    field = field_of(placed)
    single = [number for number in placed.labels if number not in placed.facts.twins]
    for number in single:
        box, key = placed.labels[number], key_of(placed.figure.edges[number], None)
        for line, passes in ((key, True), (("another",), False)):
            ranges = free(field, field.row(box), line, 0.0, 0.0)
            assert any(low <= box.left <= high for low, high in ranges) == passes
    assert single


def test_a_flaw_is_told_with_the_option_that_has_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def too_narrow(figure: Figure) -> tuple[Display, PlacedFigure]:
        display, placed = paint_figure(figure)
        return (replace(display, width=75.0) if figure.legend else display), placed

    monkeypatch.setattr(sweep, "paint_figure", too_narrow)
    count, found = sweep.looked_at("mlp", sweep.of_options(mlp_backward()))
    assert count > 4
    assert found
    assert all(line.startswith("mlp, ") and "legend: off the page: " in line for line in found)


def test_every_kind_of_flaw_is_planted_in_a_test() -> None:
    kinds = re.findall(r'Flaw\(\s*"([^"]+)"', Path(flaws.__file__).read_text(encoding="utf-8"))
    tests = Path(test_flaws.__file__).read_text(encoding="utf-8")
    assert len(set(kinds)) > 20
    assert [kind for kind in kinds if f'"{kind}"' not in tests] == []
