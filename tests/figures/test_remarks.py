"""`highlight` and `note`: in every format and view, and without an effect on what is computed."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest
from figures.flaws import flaws
from library import shipped

import xg
from xg.driver import Program, View
from xg.figures import ThemeName, dot, paint_figure, render
from xg.figures.draw.glyph import DrawnText
from xg.figures.model.figure import OF_MARKS, THEMES, EdgeStyle, Emphasis, Figure, NodeKind
from xg.figures.views import figure as figure_of
from xg.ir.graph import Remark
from xg_pages.explorer import explore

BODY = """
dim B, S, D = 16, D_ff = 4*D
mesh N_T = 2

block MLP (X [B, S, D]) -> Y [B, S, D] {
    param W_1 [D, D_ff], W_2 [D_ff, D]

    X -> •<=W_1 : H -> GELU : G -> •<=W_2 : Y
MLP}

block Net(X [B, S, D]) -> Z [B, S, D] {
    param b [D]
    X -> LN : N -> MLP as ffn : F -> ⊕<-BC(b) : E -> ⊕<-X : Z
NET}

plan TP of Net {
    ffn.W_1 [D, D_ff/N_T]
    ffn.W_2 [D_ff/N_T, D]
}
"""
MLP = '    highlight -> G, W_2 "ours"\n    note H "wide & <b>"\n    note -> H "per token"\n'
NET = '    highlight ffn, E "new"\n    note -> Z "the sum"\n    note X, Z "stream"\n'


@cache
def _program(block: str, plan: str | None = None, *, remarks: bool = True) -> Program:
    said = [one if remarks else "\n" * one.count("\n") for one in (MLP, NET)]
    text = BODY.replace("MLP}", f"{said[0]}}}").replace("NET}", f"{said[1]}}}")
    return xg.compile(source=text, block=block, plan=plan)


def _figures() -> list[Figure]:
    plain = [
        _program(block).figure(view) for block in ("MLP", "Net") for view in ("forward", "backward")
    ]
    return [*plain, _program("Net").figure("overview"), _program("Net", "TP").figure("overview")]


def test_a_node_an_edge_and_a_call_are_marked() -> None:
    figure = _program("MLP").figure("forward")
    marked = {node.id for node in figure.nodes if node.mark is Emphasis.HIGHLIGHTED}
    assert marked == {"G", "W_2"}
    (edge,) = (edge for edge in figure.edges if edge.mark is Emphasis.HIGHLIGHTED)
    assert edge.tail == "W_2"
    (note,) = (node for node in figure.nodes if node.kind is NodeKind.NOTE)
    assert [edge.style for edge in figure.edges if edge.tail == note.id] == [EdgeStyle.NOTE]
    net = _program("Net").figure("forward")
    assert {node.id for node in net.nodes if node.mark is Emphasis.HIGHLIGHTED} == {"ffn"}
    (edge,) = (edge for edge in net.edges if edge.mark is Emphasis.HIGHLIGHTED)
    assert edge.tail == "⊕_1" or edge.tail == "E"


def test_the_backward_figure_highlights_gradients_and_has_no_notes() -> None:
    figure = _program("MLP").figure("backward")
    marked = {node.id for node in figure.nodes if node.mark is Emphasis.HIGHLIGHTED}
    assert any("GELU" in node for node in marked)
    assert any(node.startswith("dW_2") for node in marked)
    assert "token" not in render(figure).decode()


def test_every_format_and_theme_shows_words_and_colors() -> None:
    net, ranks = _program("Net"), _program("Net", "TP")
    for figure in (net.figure("forward"), net.figure("overview"), ranks.figure("overview")):
        themes: tuple[ThemeName, ...] = ("light", "dark", "print")
        for theme in themes:
            color = THEMES[theme].colors[OF_MARKS[0]]
            texts = (render(figure, "svg", theme).decode(), dot(figure, theme))
            for text in (*texts, render(figure, "tex", theme).decode()):
                assert color.removeprefix("#") in text
                assert "the sum" in text
                assert "stream" in text
    page = explore(net, {}).page.decode()
    assert "the sum" in page
    assert "l-highlight" in page


def test_hostile_notes_are_escaped() -> None:
    figure = _program("MLP").figure("forward")
    assert "wide &amp; &lt;b&gt;" in render(figure).decode()
    assert "wide &amp; &lt;b&gt;" in dot(figure)
    assert r"\textit{wide \&{} \textless{}b" in render(figure, "tex").decode()


@pytest.mark.parametrize("place", range(6))
def test_marked_figures_have_no_flaw(place: int) -> None:
    figure = _figures()[place]
    assert flaws(paint_figure(figure)[0]) == []


def test_the_wide_head_of_a_highlighted_edge_keeps_off_another_at_a_sum() -> None:
    program = xg.compile(shipped("t5"), block="DecoderLayer", plan="TP")
    remarks = (
        Remark("M_2", False, "ours", True),
        Remark("M_2", True, "a longer note here", True),
        Remark("Y", True, "a longer note here", False),
    )
    graphs = program.graphs
    layer = replace(graphs.main, remarks=remarks)
    graphs = replace(graphs, graphs={**graphs.graphs, graphs.entry: layer})
    figure = figure_of(graphs, "forward", placed=program.distributed)
    assert flaws(paint_figure(figure)[0], figure.groups) == []


def test_nothing_is_computed_differently() -> None:
    for block in ("MLP", "Net"):
        with_remarks, without = _program(block), _program(block, remarks=False)
        for backend in ("numpy", "torch"):
            assert with_remarks.source(backend) == without.source(backend)


def test_a_figure_without_remarks_defines_no_colors_of_marks() -> None:
    plain = _program("MLP", remarks=False).figure("forward")
    assert "xg-highlight" not in render(plain).decode()
    assert "xg-highlight" in render(replace(plain, nodes=tuple(
        replace(node, mark=Emphasis.HIGHLIGHTED) for node in plain.nodes
    ))).decode()  # fmt: skip


LONG = """\
dim B, D = 8

block N "Many words, which go on until they are far wider than the figure" (x [B, D]) -> y [B, D] {
    param W, V [D, D]

    x -> •<=W : a -> tanh : b -> •<=V : y

    note a "a long remark about what the first projection is for, which goes on for a while"
    note -> a "another remark that goes on for a while, beside the product that it is about"
    note -> b "a third remark that goes on for a while, in the box of the function"
    highlight W "a fourth remark that goes on for a while, behind the name of a matrix"
}
"""


@pytest.mark.parametrize("direction", ["down", "right"])
@pytest.mark.parametrize("view", ["forward", "overview"])
def test_long_notes_and_titles_are_in_several_lines(view: View, direction: str) -> None:
    figure = xg.compile(source=LONG).figure(view)
    display, _ = paint_figure(replace(figure, rightward=direction == "right"))
    assert flaws(display, figure.groups, rightward=direction == "right") == []
    texts = {
        one.op: [part.line for part in one.parts if isinstance(part, DrawnText)]
        for one in display.elements
    }
    noted = [lines for lines in texts.values() if "remark" in str(lines)]
    assert len(noted) == 4
    assert all(len(lines) > 1 and max(line.width for line in lines) < 200 for lines in noted)
    if direction == "down":
        assert display.width < 560
        assert len(texts[""]) == 2  # the title
