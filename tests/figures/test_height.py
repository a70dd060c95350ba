"""Figures for a page of a given height: `--height` breaks them into columns side by side."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest
from figures.flaws import crossings, flaws
from library import shipped

import xg
from xg.driver import View
from xg.figures import dot, paint_figure, series
from xg.figures.model.figure import Figure, NodeKind, TooNarrow

IN: float = 72.0
CM = IN / 2.54


@cache
def _figure(name: str, view: View = "forward") -> Figure:
    return xg.compile(shipped(name)).figure(view)


@pytest.mark.parametrize(
    ("name", "view", "height"),
    [
        ("mlp", "forward", 4.0),
        ("mha", "forward", 4.0),
        ("mlp", "overview", 3.5),
        ("gpt2", "overview", 7.2),
    ],
)
def test_a_long_figure_is_broken_into_columns(name: str, view: View, height: float) -> None:
    whole = _figure(name, view)
    figure = replace(whole, height=height * IN)
    display, placed = paint_figure(figure)
    tall = paint_figure(whole)[0]
    assert display.height <= height * IN < tall.height
    assert display.width > tall.width
    assert {one.op for one in tall.elements} <= {one.op for one in display.elements}
    assert {flaw.kind for flaw in flaws(display)} <= {"broken pixel"}
    assert crossings(display) == crossings(tall)  # the links cross nothing
    assert set(placed.paths) == set(range(len(figure.edges)))
    assert f'size="200,{height:.3f}"' in dot(figure)


def _order(figure: Figure) -> list[str]:
    """Operations as a reader meets them: column by column, from the top down."""
    placed = paint_figure(figure)[1]
    boxes = {n.id: placed.nodes[n.id] for n in figure.nodes if n.kind is not NodeKind.TENSOR}
    middles = sorted({round(box.center[0]) for box in boxes.values()})
    return sorted(boxes, key=lambda node: (
        middles.index(round(boxes[node].center[0])), boxes[node].center[1]
    ))  # fmt: skip


def test_columns_are_read_one_after_the_other() -> None:
    broken = replace(_figure("mlp"), height=4.0 * IN)
    assert _order(broken) == _order(_figure("mlp"))


@pytest.mark.parametrize(("width", "height"), [(16.0, 9.0), (12.8, 9.6)])
def test_slides_fit_a_frame(width: float, height: float) -> None:
    figure = replace(
        _figure("mlp"), width=width * CM, height=height * CM, rightward=True, has_heading=False
    )
    display, _ = paint_figure(figure)
    assert display.width == width * CM
    assert display.height <= height * CM
    steps = series(figure, ("svg",))
    assert len(steps) == 8
    assert len({one.files["svg"].split(b"viewBox")[1][:24] for one in steps}) == 1


def test_a_frame_goes_on_in_the_next_column_of_a_series() -> None:
    figure = replace(_figure("gpt2", "overview"), height=7.2 * IN)
    groups = [one.op for one in paint_figure(figure)[0].elements if one.kind == "group"]
    assert len(groups) == 3
    assert len(series(figure, ("svg",))) > 10


def test_a_page_that_is_too_low_is_refused_with_a_height_that_fits() -> None:
    figure = replace(_figure("mlp"), height=1.2 * IN)
    with pytest.raises(TooNarrow) as refused:
        paint_figure(figure)
    assert refused.value.is_low
    needed = refused.value.inches * IN
    assert paint_figure(replace(figure, height=needed))[0].height <= needed


def test_ranks_side_by_side_are_not_broken() -> None:
    figure = replace(xg.compile(shipped("mlp"), plan="DP").figure("overview"), height=12 * IN)
    assert paint_figure(figure)[0].height <= 12 * IN
