"""Branches say what they carry, as the node that they lead to reads it."""

from dataclasses import replace

import pytest
from figures.flaws import flaws
from library import shipped

import xg
from xg.figures import paint_figure
from xg.figures.draw.font import line_bounds
from xg.figures.draw.glyph import DrawnShape, DrawnText, Element
from xg.figures.model.figure import EdgeRole, EdgeStyle, Figure, FigureEdge, NodeKind
from xg.figures.model.richtext import characters, plain


def figure(name: str, block: str | None = None) -> Figure:
    return xg.compile(shipped(name), block).figure("backward")


def said(edge: FigureEdge) -> str:
    return characters(edge.label)


def drawn(figure: Figure) -> set[str]:
    """The edges whose labels are painted."""
    return {
        element.op
        for element in paint_figure(figure)[0].elements
        if element.kind == "edge" and any(isinstance(part, DrawnText) for part in element.parts)
    }


@pytest.mark.parametrize("name", ["mlp", "mha", "output", "attention", "llama", "mamba"])
def test_every_edge_between_operators_has_a_label(name: str) -> None:
    """Only an edge with a tensor at an end may be without: that says it."""
    shown = figure(name)
    tensors = {node.id for node in shown.nodes
               if node.kind in (NodeKind.TENSOR, NodeKind.SAVED)}  # fmt: skip
    inner = [edge for edge in shown.edges if not {edge.tail, edge.head} & tensors]
    assert inner
    assert all(edge.label for edge in inner)


def test_branches_of_one_value_say_it_again() -> None:
    """The sum that makes db, and the product that makes dW: of B·S rows."""
    shown = figure("mlp")
    labels = [said(edge) for edge in shown.edges if edge.tail == "dDO dZ"]
    assert sorted(labels) == ["dZ [B, S, D]", "dZ [B, S, D]", "dZ [B·S, D]"]
    assert [edge.repeats for edge in shown.edges if edge.tail == "dDO dZ"].count(False) == 1


@pytest.mark.parametrize(("name", "block"), [("mlp", None), ("mha", None), ("moe", "Experts")])
def test_both_operands_of_a_product_agree(name: str, block: str | None) -> None:
    """The first sums over its last axis, the second over its last but one: [D, B·S] • [B·S, V]."""
    shown = figure(name, block)
    labels = {node.id: characters(node.label) for node in shown.nodes}
    products = {node.id for node in shown.nodes if node.kind is NodeKind.MATMUL}
    count = 0
    for edge in shown.edges:
        if edge.head in products and edge.style is EdgeStyle.DOUBLE and said(edge):
            first = next(one for one in shown.edges if one.head == edge.head and one is not edge)
            row = said(first) or labels[first.tail]
            assert axes(row)[-1] == axes(said(edge))[-2], (row, said(edge))
            count += 1
    assert count > 1


def axes(label: str) -> list[str]:
    return label.partition("[")[2].rstrip("]").split(", ")


@pytest.mark.parametrize("name", ["mlp", "mha", "output", "attention"])
def test_they_are_painted_where_there_is_room(name: str) -> None:
    """Nothing is moved for them: a figure without them is as large, but for their own width."""
    shown = figure(name)
    repeats = {f"{edge.tail}->{edge.head}" for edge in shown.edges if edge.repeats}
    painted_ones = repeats & drawn(shown)
    assert len(painted_ones) >= 0.8 * len(repeats) > 0
    assert flaws(paint_figure(shown)[0], shown.groups) == []
    edges = tuple(replace(edge, label=()) if edge.repeats else edge for edge in shown.edges)
    bare = replace(shown, edges=edges)
    assert paint_figure(bare)[0].height == paint_figure(shown)[0].height


@pytest.mark.parametrize(
    ("name", "block", "plan", "edge"),
    [("mha", None, "TP", "R dK->• dW_K"), ("mixtral", "Experts", None, "dS->• dW_r")],
)
def test_between_crowded_columns_they_are_over_level_lines(
    name: str, block: str | None, plan: str | None, edge: str
) -> None:
    shown = xg.compile(shipped(name), block, plan=plan).figure("backward")
    display = paint_figure(shown)[0]
    element = next(one for one in display.elements if one.op == edge)
    (words,) = (part for part in element.parts if isinstance(part, DrawnText))
    line = element.parts[0]
    assert isinstance(line, DrawnShape)
    text, ends = line_bounds(words.line, words.x, words.y), line.path.bounds()
    assert ends.left < text.left < text.right < ends.right
    assert flaws(display, shown.groups) == []


def test_they_are_left_out_where_there_is_none() -> None:
    shown = figure("mlp")
    long = plain("a label that is too long for the room beside its line " * 6)
    sums = {node.id for node in shown.nodes if node.kind is NodeKind.REDUCE}
    edges = tuple(
        replace(edge, label=long) if edge.repeats and edge.head in sums else edge
        for edge in shown.edges
    )
    crowded = replace(shown, edges=edges)
    without = {f"{edge.tail}->{edge.head}" for edge in edges if edge.label == long}
    assert without
    assert without.isdisjoint(drawn(crowded))
    assert flaws(paint_figure(crowded)[0]) == []


def test_one_line_says_it_once() -> None:
    """Where a line leads to several nodes, the label beside it is of all."""
    shown = xg.compile(shipped("unet"), "UNet").figure("forward")
    repeats = [edge for edge in shown.edges if edge.repeats and said(edge).startswith("e ")]
    assert len(repeats) == 2
    assert len({f"{edge.tail}->{edge.head}" for edge in repeats} & drawn(shown)) == 1


def test_a_lane_says_what_it_carries() -> None:
    """It ends far from the tensor where it begins."""
    shown = figure("mlp")
    (lane,) = (edge for edge in shown.edges if edge.role is EdgeRole.RESIDUAL)
    assert said(lane) == "dY [B, S, D]"


@pytest.mark.parametrize("direction", ["down", "right"])
def test_the_label_of_a_lane_is_next_to_the_arrow_and_not_to_its_way_back(direction: str) -> None:
    """At the right of a column, too: the gradient runs between the arrow and the column."""
    shown = xg.compile(shipped("transformer"), "Layer").figure("overview")
    shown = replace(shown, rightward=direction == "right")
    across = 0 if direction == "down" else 1
    elements = {element.op: element for element in paint_figure(shown)[0].elements}
    lanes = [(e.tail, e.head) for e in shown.edges if e.role is EdgeRole.RESIDUAL]
    forward = [(tail, head) for tail, head in lanes if (head, tail) in lanes][:2]
    assert forward == [("X", "M"), ("M", "Y")]
    for tail, head in forward:
        own, back = elements[f"{tail}->{head}"], elements[f"{head}->{tail}"]
        (words,) = (part for part in own.parts if isinstance(part, DrawnText))
        text = line_bounds(words.line, words.x, words.y).center[across]
        assert abs(_reach(own, across) - text) < abs(_reach(back, across) - text)


def _reach(element: Element, across: int) -> float:
    """Where a lane runs: as far from its ends as it gets."""
    line = element.parts[0]
    assert isinstance(line, DrawnShape)
    box = line.path.bounds()
    sides = (box.left, box.right) if across == 0 else (box.top, box.bottom)
    return max(sides, key=lambda side: abs(side - line.path.start[across]))
