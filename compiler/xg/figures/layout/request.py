"""Requests: which edges are to be routed, and by which ports they may leave and enter."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from xg.diagnostics.lazy_dataclass import dataclass
from xg.figures.layout.field import RAIL, Key, RoutingField
from xg.figures.layout.placed import PlacedFigure
from xg.figures.layout.ports import NodeSide, RimPort
from xg.figures.model import style
from xg.figures.model.figure import FigureEdge, NodeKind
from xg.figures.model.structure import EdgePlace

_PAIR_INSIDE: Final = 0.55  # of a glyph's width
_PAIR_BESIDE: Final = 2.0  # that two lines may reach beyond a text between them
_PORT_STEP: Final = 9.0  # between ports at the top or the bottom of a box
_CIRCLE_STEP: Final = 5.5
FLAT: Final = (EdgePlace.FROM_LEFT, EdgePlace.FROM_RIGHT)

# How much each side is shunned, where an edge of a place leaves its upper node, and enters its
# lower one. FORK is the line below the node's middle, which may already be there.
_LEAVE: Final = {
    EdgePlace.DOWN: {NodeSide.BOTTOM: 0.0},
    EdgePlace.OUT: {NodeSide.BOTTOM: 0.0},
    EdgePlace.BRANCH: {NodeSide.RIGHT: 0.0, NodeSide.LEFT: 2.0, NodeSide.BOTTOM: 3.0},
    EdgePlace.SIDE: {NodeSide.BOTTOM: 0.0},
    EdgePlace.AROUND: {NodeSide.RIGHT: 0.0, NodeSide.LEFT: 2.0, NodeSide.BOTTOM: 3.0},
    EdgePlace.LANE: {NodeSide.LEFT: 0.0, NodeSide.BOTTOM: 6.0, NodeSide.RIGHT: 14.0},
    EdgePlace.RAIL: {NodeSide.RIGHT: 0.0, NodeSide.LEFT: 2.0, NodeSide.BOTTOM: 12.0},
}
_ENTER: Final = {
    EdgePlace.DOWN: {NodeSide.TOP: 0.0},
    EdgePlace.OUT: {NodeSide.TOP: 0.0},
    EdgePlace.BRANCH: {NodeSide.TOP: 0.0},
    EdgePlace.SIDE: {NodeSide.RIGHT: 0.0, NodeSide.LEFT: 2.0, NodeSide.TOP: 12.0},
    EdgePlace.AROUND: {NodeSide.RIGHT: 0.0, NodeSide.LEFT: 2.0, NodeSide.TOP: 12.0},
    EdgePlace.LANE: {NodeSide.LEFT: 0.0, NodeSide.TOP: 12.0, NodeSide.RIGHT: 14.0},
    EdgePlace.RAIL: {NodeSide.TOP: 30.0},
}


@dataclass(frozen=True, slots=True)
class RouteRequest:
    """An edge between an upper and a lower node, with the ports that it may take."""

    number: int
    key: Key
    place: EdgePlace
    upper: str
    lower: str
    starts: tuple[RimPort, ...]
    ends: tuple[RimPort, ...]
    via: tuple[int, float] | None  # the row of its label, and where it runs there


def key_of(edge: FigureEdge, place: EdgePlace, bar: str) -> Key:
    """Return the key of an edge's line: a double line is never part of a single one.

    All rails to one bar are one line.
    """
    if place is EdgePlace.RAIL:
        return RAIL, bar
    return (*map(str, edge.value), edge.style.name)


def requests(placed: PlacedFigure, field: RoutingField) -> Iterator[RouteRequest]:
    """Yield all edges to route, those first that have hardly a choice."""
    book = _Book(placed, field)
    order = {place: n for n, place in enumerate(_FIRST)}
    numbers = [number for number, place in enumerate(placed.facts.places) if place not in FLAT]
    numbers.sort(key=lambda n: (order[placed.facts.places[n]], book.reach(n)))
    for number in numbers:
        yield book.request(number)


_FIRST: Final = (
    EdgePlace.DOWN,
    EdgePlace.PAIRED,
    EdgePlace.BACK,
    EdgePlace.OUT,
    EdgePlace.BRANCH,
    EdgePlace.SIDE,
    EdgePlace.AROUND,
    EdgePlace.LANE,
    EdgePlace.RAIL,
)


class _Book:
    """The context in which requests are written."""

    def __init__(self, placed: PlacedFigure, field: RoutingField) -> None:
        self.placed = placed
        self.field = field
        self.shift = pair_shift(placed)
        self.bars = bars_of(placed)
        self.rows = {node: field.row(box) for node, box in placed.nodes.items()}
        places = enumerate(placed.facts.places)
        edges = placed.figure.edges
        paired = {n: edges[n] for n, place in places if place is EdgePlace.PAIRED}
        self.pairs = {(edge.tail, edge.head): number for number, edge in paired.items()}
        self.trunk = {edge.tail: -self.shift for edge in paired.values()}
        self.entered = {edge.head: -self.shift for edge in paired.values()}

    def reach(self, number: int) -> tuple[int, float]:
        """Return how far an edge goes."""
        edge = self.placed.figure.edges[number]
        tail, head = self.placed.nodes[edge.tail].center, self.placed.nodes[edge.head].center
        return abs(self.rows[edge.head] - self.rows[edge.tail]), abs(tail[0] - head[0])

    def request(self, number: int) -> RouteRequest:
        edge, place = self.placed.figure.edges[number], self.placed.facts.places[number]
        upper, lower = ends_of(self.placed, number)
        if place in (EdgePlace.PAIRED, EdgePlace.BACK):
            shift = self.shift if place is EdgePlace.BACK else -self.shift
            starts = (self._middle(upper, NodeSide.BOTTOM, shift, 0.0),)
            ends = (self._middle(lower, NodeSide.TOP, shift, 0.0),)
        else:
            shift = 0.0
            label = self.placed.labels.get(number)
            aims = [self.placed.nodes[node].center[0] for node in (upper, lower)]
            aims += [label.left] if label is not None else []
            starts = tuple(self._ports(upper, _LEAVE[place], aims))
            ends = tuple(self._ports(lower, _ENTER[place], aims))
        via = self._via(number, place, self.pairs.get((upper, lower)), shift)
        entered = upper == edge.head
        starts = tuple(replace(port, head=entered) for port in starts)
        ends = tuple(replace(port, head=not entered) for port in ends)
        return RouteRequest(
            number, key_of(edge, place, lower), place, upper, lower, starts, ends, via
        )

    def _via(
        self, number: int, place: EdgePlace, pair: int | None, shift: float
    ) -> tuple[int, float] | None:
        """Return where an edge runs beside its label, or between the two of its pair."""
        if place in (EdgePlace.PAIRED, EdgePlace.BACK) and pair is not None:
            box = self.placed.labels[pair]
            return self.field.row(box), box.center[0] + shift
        if number not in self.placed.labels:
            return None
        box = self.placed.labels[number]
        return self.field.row(box), box.left

    def _ports(
        self, node: str, costs: dict[NodeSide, float], aims: Sequence[float]
    ) -> Iterator[RimPort]:
        facts = self.placed.facts
        for side, cost in costs.items():
            if side.is_level:
                beside = facts.left if side is NodeSide.LEFT else facts.right
                if node not in beside and node not in self.bars:
                    yield self._level(node, side, cost)
            else:
                yield from self._upright(node, side, cost, aims)

    def _level(self, node: str, side: NodeSide, cost: float) -> RimPort:
        box = self.placed.nodes[node]
        x = box.left if side is NodeSide.LEFT else box.right
        gap = style.TEXT_GAP if is_text(self.placed, node) else 0.0
        return RimPort(node, self.rows[node], side, x + side.sign * gap, cost)

    def _upright(
        self, node: str, side: NodeSide, cost: float, aims: Sequence[float]
    ) -> Iterator[RimPort]:
        """Yield the middle, what is straight above or below an aim, the places beside it."""
        middle = (self.trunk if side is NodeSide.BOTTOM else self.entered).get(node, 0.0)
        yield self._middle(node, side, middle, cost)
        box = self.placed.nodes[node]
        is_circle = is_round(self.placed, node)
        step = _CIRCLE_STEP if is_circle else _PORT_STEP
        most = box.width / 2 - (3.0 if is_circle else 7.0)
        shifts = {aim - box.center[0] for aim in aims}
        for shift in sorted(one for one in shifts if 0 < abs(one) <= most):
            yield self._middle(node, side, shift, cost + 2.0)
        for count in range(1, min(int(most / step), 4) + 1 if most > 0 else 1):
            for sign in (1, -1):
                yield self._middle(node, side, sign * count * step, cost + 8.0 + count)

    def _middle(self, node: str, side: NodeSide, shift: float, cost: float) -> RimPort:
        wide = node in self.bars
        x = self.placed.nodes[node].center[0] + shift
        return RimPort(node, self.rows[node], side, x, cost, wide)


def bars_of(placed: PlacedFigure) -> frozenset[str]:
    """Return the nodes that are bars across all columns."""
    return frozenset((*placed.figure.levels, *(node.id for node in placed.figure.floor)))


def ends_of(placed: PlacedFigure, number: int) -> tuple[str, str]:
    """Return the upper and the lower end of an edge: an arrow may lead upwards."""
    edge, place = placed.figure.edges[number], placed.facts.places[number]
    floor = {node.id for node in placed.figure.floor}
    is_up = place is EdgePlace.BACK or edge.tail in floor
    return (edge.head, edge.tail) if is_up else (edge.tail, edge.head)


def is_round(placed: PlacedFigure, node: str) -> bool:
    """Return whether a node is drawn as a circle."""
    kind = placed.facts.kinds.get(node)  # a bar under all of it is none of its nodes
    return kind is not None and style.NODE_STYLES[kind].outline is style.Outline.CIRCLE


def is_text(placed: PlacedFigure, node: str) -> bool:
    """Return whether a node is drawn as text without a frame."""
    return placed.facts.kinds.get(node) in (NodeKind.TENSOR, NodeKind.SAVED)


def pair_shift(placed: PlacedFigure) -> float:
    """Return how far pairs are off the middle: the same in the whole figure, inside every glyph."""
    widths = [
        placed.nodes[node].width + _PAIR_BESIDE
        if is_text(placed, node)
        else placed.nodes[node].width * _PAIR_INSIDE
        for edge, place in zip(placed.figure.edges, placed.facts.places, strict=True)
        if place is EdgePlace.PAIRED
        for node in (edge.tail, edge.head)
    ]
    return min([style.PAIR_GAP, *widths]) / 2
