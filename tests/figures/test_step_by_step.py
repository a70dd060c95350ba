"""Series of pictures for slides: `--steps`."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest
from figures.flaws import flaws_halfway
from figures.test_flaws import figures_of
from fuzz.recorded import read, recorded
from library import shipped

import xg
from xg.driver import View
from xg.figures import paint_figure, series
from xg.figures.draw.glyph import Display
from xg.figures.draw.paint import step_by_step
from xg.figures.model.figure import EdgeRole, EdgeStyle, Figure, FigureColumn, NodeKind


@cache
def _figure(name: str, view: View, plan: str | None = None) -> Figure:
    return xg.compile(shipped(name), plan=plan).figure(view)


def _names(display: Display) -> list[str]:
    return [one.op for one in display.elements]


def _operations(figure: Figure | FigureColumn) -> list[str]:
    texts = (NodeKind.TENSOR, NodeKind.SAVED, NodeKind.NOTE)
    return [node.id for node in figure.nodes if node.kind not in texts]


@pytest.mark.parametrize("view", ["forward", "backward"])
def test_each_picture_has_one_operation_more(view: View) -> None:
    figure = _figure("mlp", view)
    whole, _ = paint_figure(figure)
    pictures = step_by_step(figure, whole)
    operations = _operations(figure)
    for count, picture in enumerate(pictures, 1):
        names = set(_names(picture))
        assert [one for one in operations if one in names] == operations[:count]
        assert (picture.width, picture.height) == (whole.width, whole.height)
        assert picture.title == f"{whole.title}, step {count} of {len(operations)}"
    assert pictures[-1].elements == whole.elements


@pytest.mark.parametrize(("view", "plan"), [("backward", None), ("overview", "TP")])
def test_nothing_ends_where_nothing_is(view: View, plan: str | None) -> None:
    figure = _figure("mlp", view, plan)
    whole, _ = paint_figure(figure)
    before: list[str] = []
    for picture in step_by_step(figure, whole):
        names = _names(picture)
        ends = [
            end for one in picture.elements if one.wire for end in (one.wire.tail, one.wire.head)
        ]
        assert set(ends) <= set(names)
        assert len(names) > len(before)
        before = names
    assert before == _names(whole)


def test_gradients_come_after_all_operations_from_the_last_one() -> None:
    figure = _figure("mlp", "overview", "TP")
    pictures = step_by_step(figure, paint_figure(figure)[0])
    back = [e for e in figure.columns[0].edges if e.style is EdgeStyle.DASHED]
    firsts = [
        next(n for n, one in enumerate(pictures) if f"{e.tail}->{e.head} @0" in _names(one))
        for e in back
    ]
    operations = len(_operations(figure.columns[0]))
    assert sorted(set(firsts)) == list(range(operations, len(pictures)))
    # In the order of the program each edge's way back comes before those above it.
    above = [n for e, n in zip(back, firsts, strict=True) if e.role is EdgeRole.MAIN]
    assert above == sorted(above, reverse=True)


def test_files_of_a_series_are_different() -> None:
    files = [one.files["svg"] for one in series(_figure("mlp", "forward"), ["svg"])]
    assert len(set(files)) == len(files) == 8


RANDOM = [path for path in recorded("figure") if path.stem.endswith(("_1129", "_1653"))]


@pytest.mark.parametrize("figure", ["vae", "transformer", "mixtral", *RANDOM])
def test_labels_are_beside_their_lines_before_the_ways_back_come(figure: str | Path) -> None:
    is_shipped = isinstance(figure, str)
    drawn = _figure(figure, "overview") if is_shipped else figures_of(read(figure))[2]
    display = paint_figure(drawn)[0]
    pictures = step_by_step(drawn, display)
    assert [flaw for picture in pictures for flaw in flaws_halfway(picture, display)] == []
    assert pictures[-1].elements == display.elements


def test_a_line_and_its_way_back_to_come_are_together_off_a_corner() -> None:
    figure = xg.compile(shipped("dpo"), plan="TP").figure("overview")
    display = paint_figure(figure)[0]
    pictures = step_by_step(figure, display)
    middle = pictures[len(pictures) // 2]
    assert flaws_halfway(middle, display) == []
    assert "line at corner" in {flaw.kind for flaw in flaws_halfway(middle, middle)}
