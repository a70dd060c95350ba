"""List the edges to route and their ports, and fill the field of a placed figure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from xg.diagnostics.lazy_dataclass import dataclass, replace
from xg.figures.draw.display import head_width
from xg.figures.layout.field import CLEAR, Key, NodeSide, Range, RimPort, RoutingField
from xg.figures.layout.placement import PlacedFigure
from xg.figures.model import style
from xg.figures.model.figure import FigureEdge, FigureGroup, NodeKind
from xg.figures.model.geometry import Box, bounding_box
from xg.figures.model.structure import EdgePlace, entered_aside, through_bars

_PAIR_INSIDE: Final = 0.55  # of a glyph's width
_PAIR_BESIDE: Final = 2.0  # that two lines may reach beyond a text between them
_BESIDE_TEXT: Final = 8.4
_BELOW_CAPITALS: Final = 1.0  # text reaches less far above its middle than below
_BELOW_SCRIPTS: Final = 1.5
_BELOW_NESTED: Final = 1.2  # more, if a subscript has one
PORT_APART: Final = 5.4  # between two lines at the top or the bottom of a node
_PORT_STEP: Final = 9.0  # between ports at the top or the bottom of a box
_CIRCLE_STEP: Final = 5.5
_WIDE: Final = 40.0  # a box that hangs no straight line at a corner,
_AT_CORNER: Final = 3.0  # that much farther in than others
_ELSEWHERE: Final = 15.0  # for leaving a bar not where its value enters: less than a crossing
FLAT: Final = (EdgePlace.FROM_LEFT, EdgePlace.FROM_RIGHT)

# How much each side is shunned, where an edge of a place leaves its upper node, and enters its
# lower one. FORK is the line below the node's middle, which may already be there.
_LEAVE: Final = {
    EdgePlace.DOWN: {NodeSide.BOTTOM: 0.0},
    EdgePlace.OUT: {NodeSide.BOTTOM: 0.0},
    EdgePlace.BRANCH: {NodeSide.RIGHT: 0.0, NodeSide.LEFT: 2.0, NodeSide.BOTTOM: 3.0},
    EdgePlace.SIDE: {NodeSide.BOTTOM: 0.0, NodeSide.RIGHT: 4.0, NodeSide.LEFT: 4.0},
    EdgePlace.AROUND: {NodeSide.RIGHT: 0.0, NodeSide.LEFT: 2.0, NodeSide.BOTTOM: 3.0},
    EdgePlace.LANE: {NodeSide.LEFT: 0.0, NodeSide.BOTTOM: 6.0, NodeSide.RIGHT: 11.0},
}
_ENTER: Final = {
    EdgePlace.DOWN: {NodeSide.TOP: 0.0},
    EdgePlace.OUT: {NodeSide.TOP: 0.0},
    EdgePlace.BRANCH: {NodeSide.TOP: 0.0},
    EdgePlace.SIDE: {NodeSide.RIGHT: 0.0, NodeSide.LEFT: 2.0, NodeSide.TOP: 12.0},
    EdgePlace.AROUND: {NodeSide.RIGHT: 0.0, NodeSide.LEFT: 2.0, NodeSide.TOP: 12.0},
    EdgePlace.LANE: {NodeSide.LEFT: 0.0, NodeSide.TOP: 12.0, NodeSide.RIGHT: 11.0},
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
    half: float = 0.0  # how far two lines, an arrow and its way back, are from the middle
    room: float = 0.0  # at its left, for its label
    lanes: frozenset[int] = frozenset()  # groups of which an end is
    aim: float | None = None  # where it goes on below the bar that it leads to


def key_of(edge: FigureEdge, twin: int | None) -> Key:
    """Return the key of an edge's line: a double line is never part of a single one.

    An arrow beside which another runs back is never part of another.
    """
    return (*map(str, edge.value), edge.style.name, *(() if twin is None else (str(twin),)))


def requests(
    placed: PlacedFigure, field: RoutingField, rooms: Mapping[int, float]
) -> Iterator[RouteRequest]:
    """Yield all edges to route, those first that have hardly a choice."""
    book = _Book(placed, field)
    order = {place: n for n, place in enumerate(_FIRST)}
    numbers = [number for number, place in enumerate(placed.facts.places) if place in order]
    numbers.sort(key=lambda n: (order[placed.facts.places[n]], book.reach(n)))
    for number in numbers:
        yield replace(book.request(number), room=rooms.get(number, 0.0))


_FIRST: Final = (
    EdgePlace.DOWN, EdgePlace.OUT, EdgePlace.BRANCH, EdgePlace.SIDE, EdgePlace.AROUND,
    EdgePlace.LANE,
)  # fmt: skip


class _Book:
    """The context in which requests are written."""

    def __init__(self, placed: PlacedFigure, field: RoutingField) -> None:
        self.placed = placed
        self.field = field
        self.shift = pair_shift(placed)
        self.bars = bars_of(placed)
        self.aside = frozenset[str]()
        if not placed.apart:
            self.aside = entered_aside(placed.figure, placed.facts.places)
        self.through = through_bars(placed.figure, self.aside)
        self.rows = {node: field.row(box) for node, box in placed.nodes.items()}
        self.heads: dict[str, list[float]] = defaultdict(list)  # their widths, by what they enter
        for edge, place in zip(placed.figure.edges, placed.facts.places, strict=True):
            if place not in FLAT:
                self.heads[edge.head].append(head_width(edge.style, edge.mark))

    def reach(self, number: int) -> tuple[int, float]:
        """Return how far an edge goes."""
        edge = self.placed.figure.edges[number]
        tail, head = self.placed.nodes[edge.tail].center, self.placed.nodes[edge.head].center
        return abs(self.rows[edge.head] - self.rows[edge.tail]), abs(tail[0] - head[0])

    def request(self, number: int) -> RouteRequest:
        edge, place = self.placed.figure.edges[number], self.placed.facts.places[number]
        twin = self.placed.facts.twins.get(number)
        half = 0.0 if twin is None else self.shift
        via = self._via(number, twin)
        aims = [self.placed.nodes[node].center[0] for node in (edge.tail, edge.head)]
        aims += [via[1]] if via is not None else []
        # A head is wider than a line: that of the arrow back is at its tail.
        starts = self._ports(edge.tail, _LEAVE[place], aims, is_head=twin is not None)
        ends = self._ports(edge.head, _ENTER[place], aims, is_head=True)
        key = key_of(edge, twin)
        groups = enumerate(self.placed.figure.groups)
        lanes = frozenset(n for n, one in groups if {edge.tail, edge.head} & set(one.nodes))
        return RouteRequest(
            number,
            key,
            place,
            edge.tail,
            edge.head,
            tuple(starts),
            tuple(ends),
            via,
            half,
            lanes=lanes,
            aim=self._aim(number),
        )

    def _aim(self, number: int) -> float | None:
        """Return where the line that goes on below a bar runs beside its label."""
        below = self.through.get(number)
        via = None if below is None else self._via(below, self.placed.facts.twins.get(below))
        return via[1] if via else None

    def _via(self, number: int, twin: int | None) -> tuple[int, float] | None:
        """Return where an edge runs beside its label, or between the two of a pair."""
        if number not in self.placed.labels:
            return None
        box = self.placed.labels[number]
        return self.field.row(box), box.left if twin is None else box.center[0]

    def _ports(
        self, node: str, costs: dict[NodeSide, float], aims: Sequence[float], *, is_head: bool
    ) -> Iterator[RimPort]:
        facts = self.placed.facts
        for side, cost in costs.items():
            if side.is_level:
                beside = facts.left if side is NodeSide.LEFT else facts.right
                if node not in beside and node not in self.bars:
                    yield self._level(node, side, cost, is_head)
            else:
                if node in self.aside:
                    yield self._middle(node, side, 0.0, cost, is_head, wide=False)
                    cost += _ELSEWHERE
                for shift, more in self._shifts(node, aims):
                    yield self._middle(node, side, shift, cost + more, is_head)

    def _level(self, node: str, side: NodeSide, cost: float, is_head: bool) -> RimPort:
        box = self.placed.nodes[node]
        x = box.left if side is NodeSide.LEFT else box.right
        gap = text_gap(self.placed, node, side)
        return RimPort(node, self.rows[node], side, x + side.sign * gap, cost, head=is_head)

    def _shifts(self, node: str, aims: Sequence[float]) -> Iterator[tuple[float, float]]:
        """Yield the middle, what is straight above or below an aim, the places beside it."""
        yield 0.0, 0.0
        box = self.placed.nodes[node]
        is_circle = is_round(self.placed, node)
        step = max(_CIRCLE_STEP, self._heads_apart(node)) if is_circle else _PORT_STEP
        if self.placed.facts.twins:
            step = max(step, PORT_APART + 2 * self.shift + 0.1)
        most = box.width / 2 - (3.0 if is_circle else 7.0)
        off_corners = most - (_AT_CORNER if box.width > _WIDE else 0.0)
        shifts = {aim - box.center[0] for aim in aims}
        for shift in sorted(one for one in shifts if 0 < abs(one) <= off_corners):
            yield shift, 2.0
        for count in range(1, min(int(most / step), 4) + 1 if most > 0 else 1):
            for sign in (1, -1):
                yield sign * count * step, 8.0 + count

    def _heads_apart(self, node: str) -> float:
        """Return how far apart two heads are at least that enter a node from above."""
        return sum(sorted(self.heads[node])[-2:]) / 2

    def _middle(
        self,
        node: str,
        side: NodeSide,
        shift: float,
        cost: float,
        is_head: bool,
        *,
        wide: bool | None = None,
    ) -> RimPort:
        at_bar = node in self.bars
        wide = at_bar if wide is None else wide
        x = self.placed.nodes[node].center[0] + shift
        return RimPort(node, self.rows[node], side, x, cost, at_bar, wide, is_head)


def bars_of(placed: PlacedFigure) -> frozenset[str]:
    """Return the nodes that are bars across all columns."""
    return frozenset(placed.figure.levels)


def is_round(placed: PlacedFigure, node: str) -> bool:
    """Return whether a node is drawn as a circle."""
    return style.NODE_STYLES[placed.facts.kinds[node]].outline is style.Outline.CIRCLE


def is_text(placed: PlacedFigure, node: str) -> bool:
    """Return whether a node is drawn as text without a frame."""
    return placed.facts.kinds.get(node) in (NodeKind.TENSOR, NodeKind.SAVED, NodeKind.NOTE)


def text_gap(placed: PlacedFigure, node: str, side: NodeSide) -> float:
    """Return how far lines end from the box at a side of a node: not 0 where that is text."""
    if not is_text(placed, node):
        return 0.0
    below = _BELOW_NESTED if node in placed.facts.low else 0.0
    if placed.figure.rightward:
        gaps = {NodeSide.LEFT: -_BELOW_CAPITALS, NodeSide.RIGHT: _BELOW_SCRIPTS + below}
        return gaps.get(side, 0.0)
    gaps = {NodeSide.TOP: -_BELOW_CAPITALS, NodeSide.BOTTOM: below}
    return gaps.get(side, style.TEXT_GAP)


def side_room(placed: PlacedFigure, node: str) -> float:
    """Return how high the side of a node is for lines: they may pass over and under a text."""
    is_low = is_text(placed, node) and not placed.figure.rightward
    more = _BESIDE_TEXT if placed.facts.twins and is_low else 0.0
    return placed.nodes[node].height + more


def pair_shift(placed: PlacedFigure) -> float:
    """Return how far pairs are off the middle: the same in the whole figure, inside every glyph."""
    boxes = placed.turned().nodes if placed.is_turned else placed.nodes
    widths = [
        boxes[node].width + _PAIR_BESIDE
        if is_text(placed, node)
        else boxes[node].width * _PAIR_INSIDE
        for number in placed.facts.twins
        for node in (placed.figure.edges[number].tail, placed.figure.edges[number].head)
    ]
    return min([style.PAIR_GAP, *widths]) / 2


# The field of a placed figure, with everything that lines run around: boxes, labels, lanes.


def field_of(placed: PlacedFigure) -> RoutingField:
    """Return the rows of a placed figure, with everything in them."""
    boxes = [*placed.nodes.values(), *placed.labels.values()]
    field = RoutingField.of(boxes)
    bars = bars_of(placed)
    for node, box in placed.nodes.items():
        if node not in bars:
            field.rows[field.row(box)].block(box.left, box.right)
    for number, box in placed.labels.items():
        label_blocks(placed, field, number, box, put=True)
    for edge, place in zip(placed.figure.edges, placed.facts.places, strict=True):
        if place in FLAT:
            ends = placed.nodes[edge.tail], placed.nodes[edge.head]
            first, last = sorted(ends, key=lambda box: box.left)
            field.rows[field.row(first)].block(first.right, last.left)
    for number, group in enumerate(placed.figure.groups):
        if group.is_axis and not placed.figure.columns:
            _frame_lane(placed, field, number, group)
    return field


def _frame_lane(placed: PlacedFigure, field: RoutingField, number: int, group: FigureGroup) -> None:
    """Keep the upright lines of others out of a lane: in its frame they would seem to be in it."""
    members = set(group.nodes)
    ends = [{edge.tail, edge.head} for edge in placed.figure.edges]
    boxes = [placed.nodes[node] for node in group.nodes]
    boxes += [box for n, box in placed.labels.items() if ends[n] <= members]
    inside = bounding_box(boxes)
    strangers = [box for node, box in placed.nodes.items() if node not in members]
    around = inside.grown(style.GROUP_PADDING)
    if any(around.overlaps(box) for box in strangers):
        around = inside
    if not any(around.overlaps(box) for box in strangers):
        rows = [field.row(box) for box in boxes]
        for row in range(min(rows), max(rows) + 1):
            field.rows[row].framed[number] = around.left, around.right


def label_blocks(
    placed: PlacedFigure, field: RoutingField, number: int, box: Box, *, put: bool
) -> None:
    """Block a label's room in its row, or let lines through there again."""
    row = field.rows[field.row(box)]
    lines = row.labelled.setdefault(key_of(placed.figure.edges[number], None), [])
    is_paired = number in placed.facts.twins
    if put:
        row.block(*blocked(placed, number, box))
        lines += [] if is_paired else [box.left]
    else:
        row.taken.remove(blocked(placed, number, box))
        if not is_paired:
            lines.remove(box.left)


def blocked(placed: PlacedFigure, number: int, box: Box) -> Range:
    """Return what of its row a label takes: a single line may run at its left end."""
    is_paired = number in placed.facts.twins
    return box.left if is_paired else box.left + CLEAR - 1.0, box.right
