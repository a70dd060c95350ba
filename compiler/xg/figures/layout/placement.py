"""The placement problem: a figure as boxes without text, in DOT.

Nothing of a figure's text goes in: boxes are called n0, n1 … (units) and l0, l1 … (labels), so the
answer depends on no font and no name can reach the engine. A label is a box of its own in an odd
row, whose left edge is on the line it belongs to. Sizes are whole even points: old and new versions
of Graphviz then round in the same way.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from xg.diagnostics.lazy_dataclass import dataclass
from xg.figures.layout.measure import Extent, label_size
from xg.figures.layout.unit import NodeUnit
from xg.figures.model import style
from xg.figures.model.figure import Figure, FigureEdge, NodeKind
from xg.figures.model.structure import EdgePlace, Structure, leveled, passing

_STRAIGHT: Final = 1000
_BRANCH: Final = 3
_SIDE: Final = 20
_PLACED: Final = (
    EdgePlace.DOWN,
    EdgePlace.OUT,
    EdgePlace.PAIRED,
    EdgePlace.BRANCH,
    EdgePlace.SIDE,
    EdgePlace.AROUND,
)
_HEADER: Final = """\
graph [rankdir=TB, newrank=true, splines=spline, nodesep={nodesep:.4f}, ranksep={ranksep:.4f}]
node [shape=box, fixedsize=true, label="", margin=0]
edge [arrowhead=none]"""


def problem(
    figure: Figure, facts: Structure, units: Sequence[NodeUnit], *, clusters: bool = True
) -> str:
    """Return the DOT text that asks for the places of the figure's boxes.

    With `clusters`, no other node may be among the nodes of a group.
    """
    kinds = {node.id: node.kind for node in figure.nodes}
    ports = {unit.node: _Port(f"n{number}", unit) for number, unit in enumerate(units)}
    lines = [_HEADER.format(nodesep=style.NODE_GAP / 72, ranksep=style.ROW_GAP / 72)]
    lines += (port.declared(kinds[node]) for node, port in ports.items())
    pairs = {(edge.tail, edge.head): edge for edge in figure.edges}
    for number, (edge, place) in enumerate(zip(figure.edges, facts.places, strict=True)):
        if place in _PLACED:
            ends = ports[edge.tail], ports[edge.head]
            if place is EdgePlace.PAIRED:
                lines += _paired(number, *ends, edge, pairs[edge.head, edge.tail])
            else:
                lines += _downward(number, *ends, edge, place)
    lines += _forks(facts, ports)
    lines += (
        f"{ports[above].name} -> {ports[below].name} [style=invis, weight=0]"
        for above, below in leveled(figure)
        if above in ports and below in ports
    )
    lines += _labels_at_levels(figure, facts, ports) if figure.levels else ()
    lines += _groups(figure, facts, ports) if clusters else ()
    return "digraph {\n" + "\n".join(lines) + "\n}\n"


@dataclass(frozen=True, slots=True)
class _Port:
    """A unit's name in the problem, and where its node's lines begin and end."""

    name: str
    unit: NodeUnit

    def at(self, side: str = "") -> str:
        """Return the port at a side of the node: n above, s below, or anywhere."""
        port = f"{self.name}:p" if self.unit.is_compound else self.name
        return f"{port}:{side}" if side else port

    def declared(self, kind: NodeKind) -> str:
        """Return the statement that declares the box."""
        size = Extent(self.unit.width, self.unit.height)
        if self.unit.is_compound:
            fields = "|" * self.unit.before + "<p>" + "|" * self.unit.after
            return _box(self.name, size, f', shape=record, label="{fields}"')
        circle = style.NODE_STYLES[kind].outline is style.Outline.CIRCLE
        return _box(self.name, size, ", shape=circle" if circle else "")


def has_label_box(edge: FigureEdge, place: EdgePlace) -> bool:
    """Return whether the problem has a box for the edge's label."""
    if place is EdgePlace.PAIRED:
        return True
    return bool(edge.label) and place in (
        EdgePlace.DOWN,
        EdgePlace.BRANCH,
        EdgePlace.SIDE,
        EdgePlace.AROUND,
    )


def _box(name: str, size: Extent, more: str = "") -> str:
    return f"{name} [width={_inches(size.width)}, height={_inches(size.height)}{more}]"


def _inches(points: float) -> str:
    return f"{2 * math.ceil(points / 2) / 72:.6f}"


def _paired(
    number: int, tail: _Port, head: _Port, down: FigureEdge, up: FigureEdge
) -> Iterator[str]:
    """Place an arrow and its way back as one line through a label as wide as both sides need."""
    sizes = [label_size(edge.label) for edge in (down, up) if edge.label]
    half = max((size.width for size in sizes), default=0.0) + style.PAIR_GAP / 2
    label = f"l{number}"
    yield _box(label, Extent(2 * half, max((size.height for size in sizes), default=10.0)))
    yield f"{tail.at('s')} -> {label}:n [id=a{number}, weight={_STRAIGHT}]"
    yield f"{label}:s -> {head.at('n')} [id=b{number}, weight={_STRAIGHT}]"


def _downward(
    number: int, tail: _Port, head: _Port, edge: FigureEdge, place: EdgePlace
) -> Iterator[str]:
    above = _BRANCH if place in (EdgePlace.BRANCH, EdgePlace.AROUND) else _STRAIGHT
    below = _SIDE if place in (EdgePlace.SIDE, EdgePlace.AROUND) else _STRAIGHT
    if edge.label:
        label = f"l{number}"
        leave = tail.at() if above is _BRANCH else tail.at("s")
        enter = head.at() if below is _SIDE else head.at("n")
        yield _box(label, label_size(edge.label))
        yield f"{leave} -> {label}:nw [id=a{number}, weight={above}]"
        yield f"{label}:sw -> {enter} [id=b{number}, weight={below}]"
    else:
        rows = 1 if place is EdgePlace.OUT else 2
        weight = min(above, below)
        yield f"{tail.at()} -> {head.at()} [id=a{number}, weight={weight}, minlen={rows}]"


def _forks(facts: Structure, ports: Mapping[str, _Port]) -> Iterator[str]:
    """Keep the columns of a fork in one row and in their order."""
    for fork in facts.forks:
        row = " -> ".join(ports[child].name for child in fork.children)
        yield f"{{rank=same; edge [style=invis]; {row}}}"


def _labels_at_levels(
    figure: Figure, facts: Structure, ports: Mapping[str, _Port]
) -> Iterator[str]:
    """Keep labels of lines past a level above it, and side columns right of the one they join."""
    boxes = {
        number: edge
        for number, (edge, place) in enumerate(zip(figure.edges, facts.places, strict=True))
        if has_label_box(edge, place)
    }
    passed = dict(passing(figure))
    for number in boxes.keys() & passed.keys():
        yield f"l{number} -> {ports[passed[number]].name} [style=invis, weight=0]"
    near = {number: edge for number, edge in boxes.items() if number not in passed}
    straight = {
        e.head: n for n, e in near.items() if facts.places[n] in (EdgePlace.DOWN, EdgePlace.PAIRED)
    }
    for number, edge in near.items():
        if facts.places[number] is EdgePlace.SIDE and edge.head in straight:
            yield f"{{rank=same; l{straight[edge.head]} -> l{number} [style=invis]}}"


def _groups(figure: Figure, facts: Structure, ports: Mapping[str, _Port]) -> Iterator[str]:
    for number, group in enumerate(figure.groups):
        members = set(group.nodes)
        inside = [port.name for node, port in ports.items() if node in members]
        inside += (
            f"l{k}"
            for k, (edge, place) in enumerate(zip(figure.edges, facts.places, strict=True))
            if {edge.tail, edge.head} <= members and has_label_box(edge, place)
        )  # fmt: skip
        margin = style.GROUP_PADDING + style.GROUP_HEADING
        yield f"subgraph cluster_{number} {{margin={margin}; {'; '.join(inside)}}}"
