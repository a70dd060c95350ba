"""The placement problem: a figure as boxes without text, in the words of Graphviz.

Nothing of a figure's text goes in: boxes are called n0, n1 … (nodes) and l0, l1 … (labels), so the
answer depends on no font and no name can reach the engine. A label is a box of its own in an odd
row, whose left edge lies on the line it belongs to. Sizes are whole even points: old and new
versions of Graphviz then round alike.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final

from xg.backends.graphviz import style
from xg.backends.graphviz.figure import Figure, FigureEdge, FigureNode
from xg.backends.graphviz.measure import Size, label_size, node_size
from xg.backends.graphviz.structure import Place, Structure

_STRAIGHT: Final = 1000
_BRANCH: Final = 3
_SIDE: Final = 20
_HEADER: Final = """\
graph [rankdir=TB, newrank=true, splines=spline, nodesep={nodesep:.4f}, ranksep={ranksep:.4f}]
node [shape=box, fixedsize=true, label="", margin=0]
edge [arrowhead=none]"""


def problem(figure: Figure, facts: Structure) -> str:
    """Return the DOT text that asks for the places of the figure's boxes."""
    index = {node.id: f"n{number}" for number, node in enumerate(figure.nodes)}
    lines = [_HEADER.format(nodesep=style.NODE_GAP / 72, ranksep=style.ROW_GAP / 72)]
    lines += (_node(index[node.id], node) for node in figure.nodes)
    pairs = {(e.tail, e.head): e for e in figure.edges}
    for number, (edge, place) in enumerate(zip(figure.edges, facts.places, strict=True)):
        ends = index[edge.tail], index[edge.head]
        if place is Place.PAIRED:
            lines += _paired(number, *ends, edge, pairs[edge.head, edge.tail])
        else:
            lines += _edge(number, *ends, edge, place)
    lines += _forks(facts, index)
    lines += _groups(figure, facts, index)
    return "digraph {\n" + "\n".join(lines) + "\n}\n"


def _node(name: str, node: FigureNode) -> str:
    if style.NODE_STYLES[node.kind].outline is style.Outline.CIRCLE:
        return f"{name} [shape=circle, width={_inches(node_size(node).width)}]"
    return _box(name, node_size(node))


def has_label_box(edge: FigureEdge, place: Place) -> bool:
    """Tell whether the problem holds a box for the edge's label."""
    if place is Place.PAIRED:
        return True
    return bool(edge.label) and place in (Place.DOWN, Place.BRANCH, Place.SIDE)


def _box(name: str, size: Size) -> str:
    return f"{name} [width={_inches(size.width)}, height={_inches(size.height)}]"


def _inches(points: float) -> str:
    return f"{2 * math.ceil(points / 2) / 72:.6f}"


def _edge(number: int, tail: str, head: str, edge: FigureEdge, place: Place) -> Iterator[str]:
    match place:
        case Place.LANE | Place.BACK | Place.PAIRED:
            return  # routed around what is placed, or placed with its partner
        case Place.FROM_LEFT:
            yield f"{{rank=same; {tail} -> {head} [weight=10]}}"
        case Place.FROM_RIGHT:
            yield f"{{rank=same; {head} -> {tail} [weight=10]}}"
        case Place.OUT:
            yield f"{tail} -> {head} [id=a{number}, weight={_STRAIGHT}]"
        case Place.DOWN | Place.BRANCH | Place.SIDE:
            yield from _downward(number, tail, head, edge, place)


def _paired(number: int, tail: str, head: str, down: FigureEdge, up: FigureEdge) -> Iterator[str]:
    """Place an arrow and its way back as one line through a label as wide as both sides need."""
    sizes = [label_size(edge.label) for edge in (down, up) if edge.label]
    half = max((size.width for size in sizes), default=0.0) + style.PAIR_GAP / 2
    label = f"l{number}"
    yield _box(label, Size(2 * half, max((size.height for size in sizes), default=10.0)))
    yield f"{tail}:s -> {label}:n -> {head}:n [weight={_STRAIGHT}]"


def _downward(number: int, tail: str, head: str, edge: FigureEdge, place: Place) -> Iterator[str]:
    above = _BRANCH if place is Place.BRANCH else _STRAIGHT
    below = _SIDE if place is Place.SIDE else _STRAIGHT
    if edge.label:
        label = f"l{number}"
        leave = "" if place is Place.BRANCH else ":s"
        enter = "" if place is Place.SIDE else ":n"
        yield _box(label, label_size(edge.label))
        yield f"{tail}{leave} -> {label}:nw [id=a{number}, weight={above}]"
        yield f"{label}:sw -> {head}{enter} [id=b{number}, weight={below}]"
    else:
        yield f"{tail} -> {head} [id=a{number}, weight={min(above, below)}, minlen=2]"


def _forks(facts: Structure, index: dict[str, str]) -> Iterator[str]:
    """Keep the columns of a fork in one row and in their order."""
    for fork in facts.forks:
        pairs = zip(fork.children, fork.children[1:], strict=False)
        links = (
            f"{index[facts.right.get(one, one)]} -> {index[facts.left.get(other, other)]}"
            for one, other in pairs
        )
        yield f"{{rank=same; edge [style=invis]; {'; '.join(links)}}}"


def _groups(figure: Figure, facts: Structure, index: dict[str, str]) -> Iterator[str]:
    for number, group in enumerate(figure.groups):
        members = set(group.nodes)
        inside = [index[node.id] for node in figure.nodes if node.id in members]
        inside += (
            f"l{k}"
            for k, (edge, place) in enumerate(zip(figure.edges, facts.places, strict=True))
            if {edge.tail, edge.head} <= members and has_label_box(edge, place)
        )  # fmt: skip
        margin = style.GROUP_PADDING + style.GROUP_HEADING
        yield f"subgraph cluster_{number} {{margin={margin}; {'; '.join(inside)}}}"
