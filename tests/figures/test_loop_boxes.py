"""The box of a loop: along which axis it runs, and at which numbers its states begin."""

from pathlib import Path

import pytest
from figures.flaws import crossings, flaws

import xg
from xg.figures import paint_figure
from xg.figures.model.figure import Figure, FigureNode
from xg.figures.model.richtext import characters
from xg.figures.views import View, figure
from xg.figures.views.forward import forward_drawn
from xg.ir.graph import Apply

LOOPS = """\
dim B, S, D = 16, D_h = 24, N_L = 2
block Cell(x [B, D]) -> y [B, D_h] {
    param W [D, D_h], U [D_h, D_h]
    state h [B, D_h] = zeros
    state c [B, D_h] = -0.5

    x -> •<=W -> ⊕<-(h -> •<=U) -> tanh : n [B, D_h]
    c -> ⊙<-n -> ⊕<-n                   : k [B, D_h]
    k -> tanh                           : y
    next h = y
    next c = k
}
block Mapped(x [B, D_h]) -> y [B, D] {
    param V [D_h, D]

    x -> •<=V : y
}
block Layer(X [B, S, D], h_0 [B, D_h]) -> Y [B, S, D], c_S [B, D_h] {
    X -> Cell(D_h=D_h, h=h_0) over S as forth : A, h_1, c_1
    X -> Cell(D_h=D_h) over S reversed as back : C
    fill[B, D_h](1)                     : named [B, D_h]
    X -> Cell(D_h=D_h, c=named) over S as third  : E
    A -> ⊕<-C -> ⊕<-E -> Mapped(D=D) over S as out : Y
    c_1                                 : c_S
}
block Stack(X [B, S, D]) -> Y [B, S, D] {
    X -> N_L × Row as rows : Y
}
block Row(X [B, S, D]) -> Y [B, S, D] {
    X -> Cell over S as cell -> Mapped(D=D) over S as out -> ⊕<-X : Y
}
"""


@pytest.fixture(name="source", scope="module")
def _source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("loops") / "loops.xg"
    path.write_text(LOOPS, encoding="utf-8")
    return path


def quiet(node: FigureNode) -> list[str]:
    return [characters(line) for line in (node.detail, *node.lines)]


def entering(found: Figure, head: str) -> set[str]:
    return {edge.tail for edge in found.edges if edge.head == head}


@pytest.mark.parametrize("view", ["forward", "overview"])
def test_a_box_says_where_states_begin_at_numbers(source: Path, view: View) -> None:
    found = figure(xg.compile(source, block="Layer").graphs, view)
    boxes = {node.id: quiet(node) for node in found.nodes}
    assert boxes["forth"] == ["over S, as forth", "c = −0.5"]
    assert boxes["back"] == ["over S reversed, as back", "h = 0, c = −0.5"]
    assert boxes["third"] == ["over S, as third", "h = 0"]
    assert boxes["out"] == ["over S"]
    # A start that the file gives is drawn, a constant of the file too.
    assert "h_0" in entering(found, "forth")
    assert "named" in entering(found, "third")
    assert not any(name.startswith("fill") for name in boxes)


def test_a_loop_in_an_opened_block_says_it_too(source: Path) -> None:
    found = figure(xg.compile(source, block="Stack").graphs, "overview")
    boxes = {node.id: quiet(node) for node in found.nodes}
    assert boxes["cell"] == ["over S", "h = 0, c = −0.5"]
    assert not any(name.startswith("fill") for name in boxes)


def test_a_loop_is_one_box_at_every_depth(source: Path) -> None:
    program = xg.compile(source, block="Stack").graphs
    found = figure(program, "overview", depth=3)
    assert [characters(group.label) for group in found.groups] == ["Row × N_L"]
    assert {"cell", "out"} <= {node.id for node in found.nodes}
    assert flaws(paint_figure(found)[0], found.groups) == []


def test_the_step_that_makes_a_start_is_shown_by_the_box(source: Path) -> None:
    program = xg.compile(source, block="Layer").graphs
    drawn = forward_drawn(program, program.main)
    fills = [s for s in program.main.steps if isinstance(s, Apply) and s.op.glyph == "fill"]
    shown = sorted(drawn.nodes[step] for step in fills)
    assert shown == ["back", "back", "forth", "named", "third"]


@pytest.mark.parametrize("block", ["Layer", "Stack", "Cell"])
def test_figures_of_loops_have_no_flaw(source: Path, block: str) -> None:
    program = xg.compile(source, block=block).graphs
    views: tuple[View, ...] = ("forward", "backward", "overview")
    for view in views[: 2 if block == "Cell" else 3]:
        display, placed = paint_figure(figure(program, view))
        assert placed.warning == ""
        assert flaws(display) == [], view
        assert crossings(display) <= (block == "Layer" and view == "backward"), view


ELSEWHERE = """\
dim B, L, S = L/2, T, D = 4

block Cell(x [B, D]) -> y [B, D] {
    state h [B, D]

    x -> ⊕<-h -> tanh : y
    next h = y
}

block F(X [B, S, D]) -> Y [B, S, D] {
    X -> Cell over S : Y
}

block Net(X [B, T, D], Z [B, L, D]) -> Y [B, T, D], Y_2 [B, S, D] {
    X -> F as f         : Y
    Z -> slice[L](0, S) : z [B, S, D]
    z -> Cell over S    : Y_2
}
"""


def test_an_axis_is_called_as_beside_the_box() -> None:
    """In an opened call as its caller does, and by the name of a size that is defined."""
    drawn = xg.compile(source=ELSEWHERE).figure("overview", depth=2)
    said = {characters(node.detail) for node in drawn.nodes} - {""}
    assert {"over T", "over S"} <= said
    assert not any("L/2" in each for each in said)
