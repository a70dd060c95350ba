"""The placement problem: a figure as boxes without text, in DOT.

Nothing of a figure's text goes in: boxes are called n0, n1 … (units) and l0, l1 … (labels), so the
answer depends on no font and no name can reach the engine. A label is a box of its own in an odd
row, whose left edge is on the line it belongs to. Sizes are whole even points: old and new versions
of Graphviz then round in the same way.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final

from xg.diagnostics.lazy_dataclass import dataclass
from xg.figures.layout.measure import Extent, label_size, pair_size
from xg.figures.layout.unit import NodeUnit
from xg.figures.model import style
from xg.figures.model.figure import Figure, FigureEdge, NodeKind
from xg.figures.model.structure import (
    EdgePlace,
    Fork,
    Structure,
    entered_aside,
    leveled,
    nested,
    passing,
)

_STRAIGHT: Final = 1000
_JOINED: Final = 900  # into a node that another column joins: there the shorter one waits
_BRANCH: Final = 3
_SIDE: Final = 20
_FROM_ASIDE: Final = (EdgePlace.SIDE, EdgePlace.AROUND)
_POINT: Final = 8.0  # the width of where a line meets a bar
_PLACED: Final = (EdgePlace.DOWN, EdgePlace.OUT, EdgePlace.BRANCH, EdgePlace.SIDE, EdgePlace.AROUND)
# Rounds of the search for short edges in a large figure: in the last ones it grows hardly better.
_ROUNDS: Final = ((640, 2), (320, 4))
# Our own router draws all edges.
_HEADER: Final = """\
graph [rankdir=TB, newrank=true, splines=none, nodesep={nodesep:.4f}, ranksep={ranksep:.4f}{limits}]
node [shape=box, fixedsize=true, label="", margin=0]
edge [arrowhead=none]"""


@dataclass(frozen=True, slots=True)
class Wishes:
    """Orders that a placement keeps besides the rows, though edges might cross less without.

    With `clusters`, no other node may be among the nodes of a group; with `forks`, columns keep
    their order where they begin, or those that join another are `mirrored`, to its left, or those
    that join none are `turned` there; with `sides`, what joins a column under a bar is at its
    right. A value that enters a bar from beside leaves it at one place, or anywhere if `apart`.
    With `even`, columns between two bars have equal nodes in equal rows. Engines read boxes in an
    order that decides between equals: maybe `backwards`. A group has so many points of `room`
    around it, for labels that find their places later.
    """

    clusters: bool = True
    forks: bool = True
    mirrored: bool = False
    turned: bool = False
    sides: bool = True
    apart: bool = False
    even: bool = True
    backwards: bool = False
    room: float = 0.0

    def order(self, fork: Fork) -> tuple[str, ...]:
        """Return the columns of a fork from left to right."""
        return fork.mirrored if self.mirrored else fork.turned if self.turned else fork.children


def problem(figure: Figure, facts: Structure, units: Sequence[NodeUnit], wishes: Wishes) -> str:
    """Return the DOT text that asks for the places of the figure's boxes."""
    kinds = {node.id: node.kind for node in figure.nodes}
    ports = {unit.node: _Port(f"n{number}", unit) for number, unit in enumerate(units)}
    rounds = next((rounds for least, rounds in _ROUNDS if len(figure.nodes) > least), 0)
    limits = f", nslimit={rounds}" if rounds else ""
    gaps = {"nodesep": style.NODE_GAP / 72, "ranksep": style.ROW_GAP / 72}
    lines = [_HEADER.format(**gaps, limits=limits)]
    declared = [port.declared(kinds[node]) for node, port in ports.items()]
    lines += declared[::-1] if wishes.backwards else declared
    labels = label_boxes(figure, facts)
    numbered = list(enumerate(zip(figure.edges, facts.places, strict=True)))
    aside = frozenset[str]() if wishes.apart else entered_aside(figure, facts.places)
    wide = frozenset(figure.levels) - aside
    joined = _joined(figure, facts) if wishes.even else frozenset[str]()
    for number, (edge, place) in numbered[::-1] if wishes.backwards else numbered:
        if place in _PLACED:
            ends = ports[edge.tail], ports[edge.head]
            if place is not EdgePlace.DOWN:
                ends, points = _at_bars(number, edge, wide, ends)
                lines += points
            weights = _weights(place, is_joined=edge.head in joined)
            size, wait = labels.get(number), facts.waits.get(number, 0)
            is_pair = number in facts.twins
            lines += _downward(number, *ends, place, size, weights, wait, is_pair=is_pair)
    lines += _forks(facts, ports, wishes) if wishes.forks else ()
    lines += (
        f"{ports[above].name} -> {ports[below].name} [style=invis, weight=0]"
        for above, below in leveled(figure)
        if above in ports and below in ports
    )
    lines += _labels_at_levels(figure, facts, ports, wishes) if figure.levels else ()
    if wishes.clusters:
        lines += _groups(figure, facts, ports, wishes.room)
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


def label_boxes(figure: Figure, facts: Structure) -> dict[int, Extent]:
    """Return the boxes of labels: at the right of a line, or around an arrow and its way back.

    Those that repeat what another says have none.
    """
    boxes: dict[int, Extent] = {}
    for number, (edge, place) in enumerate(zip(figure.edges, facts.places, strict=True)):
        if place not in (EdgePlace.DOWN, EdgePlace.BRANCH, EdgePlace.SIDE, EdgePlace.AROUND):
            continue
        label = () if edge.repeats else edge.label
        if number in facts.twins:
            up = figure.edges[facts.twins[number]].label
            if label or up or place is EdgePlace.DOWN:
                boxes[number] = pair_size(label, up, turned=figure.rightward)
        elif label:
            boxes[number] = label_size(label, turned=figure.rightward)
    return boxes


def _box(name: str, size: Extent, more: str = "") -> str:
    return f"{name} [width={_inches(size.width)}, height={_inches(size.height)}{more}]"


def _inches(points: float) -> str:
    return f"{2 * math.ceil(points / 2) / 72:.6f}"


def _at_bars(
    number: int, edge: FigureEdge, bars: Collection[str], ends: tuple[_Port, _Port]
) -> tuple[tuple[_Port, _Port], list[str]]:
    """Let an edge begin or end at a point of its own in the row of a bar, which is wide."""
    ports: list[_Port] = []
    points: list[str] = []
    for letter, node, port in zip("th", (edge.tail, edge.head), ends, strict=True):
        if node in bars:
            size = Extent(_POINT, port.unit.height)
            point = _Port(f"b{letter}{number}", NodeUnit(port.unit.node, size))
            points.append(_box(point.name, size))
            points.append(f"{{rank=same; {port.name}; {point.name}}}")
            ports.append(point)
        else:
            ports.append(port)
    return (ports[0], ports[1]), points


def _joined(figure: Figure, facts: Structure) -> frozenset[str]:
    """Return the nodes that another column joins, where labels are held by levels."""
    edges = zip(figure.edges, facts.places, strict=True) if figure.levels else ()
    return frozenset(edge.head for edge, place in edges if place in _FROM_ASIDE)


def _weights(place: EdgePlace, *, is_joined: bool) -> tuple[int, int]:
    """Return how much the parts of an edge above and below its label want to be short.

    Where columns of different lengths meet, one edge of the shorter ones is long: always the last,
    so that what columns have in common is in common rows.
    """
    straight = _JOINED if is_joined else _STRAIGHT
    above = _BRANCH if place in (EdgePlace.BRANCH, EdgePlace.AROUND) else straight
    below = _SIDE if place in _FROM_ASIDE else straight
    return above, below


def _downward(
    number: int,
    tail: _Port,
    head: _Port,
    place: EdgePlace,
    size: Extent | None,
    weights: tuple[int, int],
    wait: int,
    *,
    is_pair: bool,
) -> Iterator[str]:
    above, below = weights
    if size is not None:
        label, at = f"l{number}", ("n", "s") if is_pair else ("nw", "sw")
        length = f", minlen={1 + wait}" if wait else ""
        leave = tail.at() if above is _BRANCH else tail.at("s")
        enter = head.at() if below is _SIDE else head.at("n")
        yield _box(label, size)
        yield f"{leave} -> {label}:{at[0]} [id=a{number}, weight={above}]"
        yield f"{label}:{at[1]} -> {enter} [id=b{number}, weight={below}{length}]"
    else:
        rows = wait + (1 if place is EdgePlace.OUT else 2)
        weight = min(above, below)
        yield f"{tail.at()} -> {head.at()} [id=a{number}, weight={weight}, minlen={rows}]"


def _forks(facts: Structure, ports: Mapping[str, _Port], wishes: Wishes) -> Iterator[str]:
    """Keep the columns of a fork in one row and in their order."""
    for fork in facts.forks:
        children = wishes.order(fork)
        row = " -> ".join(ports[child].name for child in children)
        yield f"{{rank=same; edge [style=invis]; {row}}}"


def _labels_at_levels(
    figure: Figure, facts: Structure, ports: Mapping[str, _Port], wishes: Wishes
) -> Iterator[str]:
    """Keep labels of lines past a level above it, and side columns right of the one they join."""
    boxes = {number: figure.edges[number] for number in label_boxes(figure, facts)}
    passed = dict(passing(figure))
    for number in boxes.keys() & passed.keys():
        yield f"l{number} -> {ports[passed[number]].name} [style=invis, weight=0]"
    near = {number: edge for number, edge in boxes.items() if number not in passed}
    straight = {e.head: n for n, e in near.items() if facts.places[n] is EdgePlace.DOWN}
    for number, edge in near.items() if wishes.sides else ():
        if facts.places[number] is EdgePlace.SIDE and edge.head in straight:
            yield f"{{rank=same; l{straight[edge.head]} -> l{number} [style=invis]}}"


def _groups(
    figure: Figure, facts: Structure, ports: Mapping[str, _Port], room: float
) -> Iterator[str]:
    labels = label_boxes(figure, facts)
    inside_of = nested(figure.groups)

    def cluster(number: int) -> str:
        members = set(figure.groups[number].nodes)
        inside = [port.name for node, port in ports.items() if node in members]
        edges = ((k, figure.edges[k]) for k in labels)
        inside += (f"l{k}" for k, edge in edges if {edge.tail, edge.head} <= members)
        margin = style.GROUP_PADDING + style.GROUP_HEADING + room
        inside += map(cluster, inside_of[number])
        return f"subgraph cluster_{number} {{margin={margin}; {'; '.join(inside)}}}"

    yield from map(cluster, inside_of[None])
