"""List the edges to route, their ports and the frames around blocks, and fill the routing grid."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Final, TypeAlias

from xg.diagnostics.lazy_dataclass import dataclass, replace
from xg.figures.draw.font import TextLine, line_bounds, typeset
from xg.figures.draw.glyph import head_width
from xg.figures.layout.field import CLEAR, Key, NodeSide, Range, RimPort, RoutingField
from xg.figures.layout.placement import PlacedFigure
from xg.figures.model import figure as style
from xg.figures.model.figure import (
    Box,
    DrawnPath,
    FigureEdge,
    FigureGroup,
    NodeKind,
    Point,
    bounding_box,
    path_points,
)
from xg.figures.model.structure import (
    SAME_ROW,
    EdgePlace,
    entered_aside,
    split_at_levels,
    through_bars,
)

# Frames: the rounded lane behind a group's nodes, and the place of its heading.


_INSET: Final = 7.0
_ABOVE: Final = 6.0
_NEAR: Final = 2.0  # between a frame and a node beside it
_WIDEST: Final = 160.0  # how far a frame is widened for its heading
_STEP: Final = 6.0  # between places that are tried for a heading
_INSIDE: Final = 6.0  # a rank's frame, above and below its nodes
_CLEAR: Final = 5.0  # between a rank's frame and a bar
_OUT: Final = 3.8  # between a frame and a line along it outside: never between two of a pair
_IN: Final = (6.0, 3.8)  # and inside, where the fill begins behind a border: if there is room
_SIDES: Final = (("left", 0, -1), ("right", 0, 1), ("top", 1, -1), ("bottom", 1, 1))
_MOST: Final = 100.0  # how far a side is moved
_ALONG: Final = 5.0  # how far a line runs along a frame before an eye takes it for part of it


@dataclass(frozen=True, slots=True)
class Frame:
    """A group's frame, its set heading, and the start of the heading's baseline.

    A heading `covers` others where there is no room for it.
    """

    box: Box
    heading: TextLine
    at: Point
    covers: bool = False

    @property
    def text(self) -> Box:
        """Return the room of the heading."""
        return line_bounds(self.heading, *self.at)


def frame_box(
    placed: PlacedFigure,
    group: FigureGroup,
    around: Mapping[int, Iterable[Box]],
    inner: Sequence[Box] = (),
) -> tuple[Box, Box] | None:
    """Return what is inside of a frame, and the frame around a group's nodes.

    Inside are the lines between its nodes and the frames of groups in it. None if a node outside
    the group is among them: a frame must not claim it.
    """
    members = set(group.nodes)
    boxes = [*inner, *(placed.nodes[node] for node in group.nodes)]
    for number, edge in enumerate(placed.figure.edges):
        if {edge.tail, edge.head} <= members:
            boxes += [placed.labels[number]] if number in placed.labels else []
            boxes += around.get(number, ())
    inside = bounding_box(boxes)
    frame = inside.grown(style.GROUP_PADDING)
    # Above a column are lines that end in it; above a level line may run a lane.
    heading = style.GROUP_HEADING if group.label and not placed.is_turned else 0.0
    frame = replace(frame, top=frame.top - heading)
    strangers = [box for node, box in placed.nodes.items() if node not in members]
    for other in strangers:
        if frame.overlaps(other):
            frame = _shrink_near_others(frame, inside, other)
    return None if _hits(frame, strangers) else (inside, frame)


def beside_frames(inside: Box, frame: Box, others: Iterable[Box]) -> Box:
    """Return a frame that keeps off others, as far as what is inside allows."""
    for other in others:
        if frame.overlaps(other.grown(_NEAR)):
            frame = _shrink_near_others(frame, inside, other)
    return frame


def strange_lines(placed: PlacedFigure, group: FigureGroup) -> list[tuple[Point, Point]]:
    """Return the parts of foreign lines that run along a group's column.

    In its lane they would seem to be part of it.
    """
    members, axis = set(group.nodes), 1 if placed.is_turned else 0
    paths = (
        placed.paths[number]
        for number, edge in enumerate(placed.figure.edges)
        if number in placed.paths and members.isdisjoint((edge.tail, edge.head))
    )
    return [(a, b) for path in paths for a, b in pairwise(path_points(path)) if a[axis] == b[axis]]


def without_strangers(inside: Box, frame: Box, lines: Iterable[tuple[Point, Point]]) -> Box:
    """Shrink a frame at each side along which a foreign line runs."""
    for a, b in lines:
        if not runs_in(a, b, frame):
            continue
        for side, axis, sign in _SIDES:
            place, edge = a[axis] - sign * _OUT, getattr(inside, side)
            is_outside = sign * (place - edge) >= _NEAR
            if a[axis] == b[axis] and is_outside and sign * (getattr(frame, side) - place) > 0:
                frame = replace(frame, **{side: place})
    return frame


def runs_in(a: Point, b: Point, frame: Box) -> bool:
    """Return whether a part of a line runs along inside of a frame."""
    (low, high), (left, right) = sorted((a[1], b[1])), sorted((a[0], b[0]))
    height = min(high, frame.bottom) - max(low, frame.top)
    width = min(right, frame.right) - max(left, frame.left)
    return min(height, width) >= 0 and max(height, width) > _ALONG


def _hits(box: Box, others: Iterable[Box]) -> bool:
    return any(box.overlaps(other) for other in others)


def _shrink_near_others(frame: Box, inside: Box, other: Box) -> Box:
    """Return a frame with less room at the side where another node or frame is near."""
    if other.left >= inside.right + 2 * _NEAR:
        return replace(frame, right=min(frame.right, other.left - _NEAR))
    if other.right <= inside.left - 2 * _NEAR:
        return replace(frame, left=max(frame.left, other.right + _NEAR))
    if other.top >= inside.bottom + 2 * _NEAR:
        return replace(frame, bottom=min(frame.bottom, other.top - _NEAR))
    if other.bottom <= inside.top - 2 * _NEAR:
        return replace(frame, top=max(frame.top, other.bottom + _NEAR))
    return frame


# The upright parts of lines and the level ones: where each is, where it begins and where it ends.
StraightLines: TypeAlias = tuple[
    Sequence[tuple[float, float, float]], Sequence[tuple[float, float, float]]
]


def straight(parts: Iterable[tuple[Point, Point]]) -> StraightLines:
    """Return what of lines is upright, and what is level."""
    found: tuple[list[tuple[float, float, float]], ...] = [], []
    for a, b in parts:
        for axis in (0, 1):
            if a[axis] == b[axis]:
                found[axis].append((a[axis], *_in_order(a[1 - axis], b[1 - axis])))
    return found[0], found[1]


@dataclass(frozen=True, slots=True)
class Surroundings:
    """All that a frame's rim keeps off: other nodes, lines along it, texts under it.

    It never goes around lines `outside`.
    """

    strangers: Sequence[Box]
    lines: StraightLines
    texts: Sequence[Box]
    outside: Sequence[tuple[Point, Point]]


def place_frame(
    group: FigureGroup,
    inside: Box,
    box: Box,
    occupied: Sequence[Box],
    nodes: Mapping[str, Box],
    around: Surroundings,
) -> tuple[Frame, bool]:
    """Set a frame's heading, then move its rim; return whether both found a place off all else.

    Where they did not, the heading may be where the rim belongs, so the rim is moved first.
    """

    def add_heading(box: Box) -> tuple[Frame, bool]:
        frame = _place_heading(group, box, occupied, nodes)
        settled, is_clear = _off_lines(frame.box, bounding_box([inside, frame.text]), around)
        return replace(frame, box=settled), is_clear and not frame.covers

    frame, is_clear = add_heading(box)
    if is_clear:
        return frame, True
    moved, is_clear = add_heading(_off_lines(box, inside, around)[0])
    return (moved if is_clear else frame), is_clear


def _off_lines(box: Box, inside: Box, around: Surroundings) -> tuple[Box, bool]:
    """Move a rim off lines along it and texts under it, as little as that needs.

    A side that moves makes the others longer, so each is looked at twice, in the better of two
    orders. Return whether all sides found such a place, too.
    """
    results = (_settled(box, inside, around, sides) for sides in (_SIDES, _SIDES[::-1]))
    first, troubles = next(results)
    if troubles:
        first, troubles = min((first, troubles), *results, key=lambda result: result[1])
    return first, not troubles


def _settled(
    box: Box, inside: Box, around: Surroundings, sides: Sequence[tuple[str, int, int]]
) -> tuple[Box, int]:
    """Return a box whose sides have moved, and how many of them found no place at last."""
    troubles = 0
    for side, axis, sign in sides:
        box, _ = _with_side(box, inside, around, side, axis, sign)
    for side, axis, sign in sides:
        box, has_place = _with_side(box, inside, around, side, axis, sign)
        troubles += not has_place
    return box, troubles


def _with_side(
    box: Box, inside: Box, around: Surroundings, side: str, axis: int, sign: int
) -> tuple[Box, bool]:
    """Return a box with a side where it is free, and whether there is such a place."""
    now, edge = getattr(box, side), getattr(inside, side)
    for within in _IN:
        taken = [*_along(around.lines, box, axis, sign, within), *_under(around.texts, box, axis)]
        ends = (end for pair in taken for end in pair if abs(end - now) < _MOST)
        for place in sorted((now, *ends), key=lambda one: abs(one - now)):
            moved = replace(box, **{side: place})
            is_outside = place == now or sign * (place - edge) >= _NEAR
            is_free = not any(low < place < high for low, high in taken)
            if is_outside and is_free and not _takes_in(moved, box, around):
                return moved, True
    return box, False


def _takes_in(moved: Box, box: Box, around: Surroundings) -> bool:
    """Return whether a moved rim goes around a node of others, or a line of others as none did."""
    return _hits(moved, around.strangers) or any(
        runs_in(a, b, moved) and not runs_in(a, b, box) for a, b in around.outside
    )


def _along(
    lines: StraightLines, box: Box, axis: int, sign: int, within: float
) -> Iterator[tuple[float, float]]:
    """Yield where a rim at a side of a box would be too near to a line along it."""
    low, high = (box.top, box.bottom) if axis == 0 else (box.left, box.right)
    for place, start, end in lines[axis]:
        if min(end, high) - max(start, low) > _ALONG:
            yield _in_order(place - sign * _OUT, place + sign * within)


def _under(texts: Iterable[Box], box: Box, axis: int) -> Iterator[tuple[float, float]]:
    """Yield where a rim at a side of a box would be under a text."""
    for text in texts:
        if axis == 0 and text.top < box.bottom and text.bottom > box.top:
            yield text.left - _NEAR, text.right + _NEAR
        elif axis == 1 and text.left < box.right and text.right > box.left:
            yield text.top - _NEAR, text.bottom + _NEAR


def _in_order(one: float, other: float) -> tuple[float, float]:
    return (one, other) if one < other else (other, one)


def _place_heading(
    group: FigureGroup, box: Box, occupied: Sequence[Box], nodes: Mapping[str, Box]
) -> Frame:
    """Set the heading into the first line of a frame: at its left, at its right or between.

    Where all of that is taken, the frame is widened to the right until the heading fits. Where
    that would cut a node, it is in the last line of the frame, or above its nodes. Where lines
    are all over there, a call is widened to the left; if it cannot be, the heading covers one.
    """
    line = typeset(group.label, style.GROUP_SIZE)
    left, right = box.left + _INSET, box.right - _INSET - line.width
    top, bottom = box.top + _ABOVE + line.ascent, box.bottom - _ABOVE
    within = (left, right, *_steps(left, right))
    for x in within:
        if not _covers(line, (x, top), occupied):
            return Frame(box, line, (x, top))
    strangers = [other for node, other in nodes.items() if node not in group.nodes]
    for x in _steps(max(left, right), box.right + _WIDEST):
        wider = replace(box, right=max(box.right, x + line.width + _INSET))
        if _hits(wider, strangers):
            break
        if not _covers(line, (x, top), occupied):
            return Frame(wider, line, (x, top))
    for x in within:
        if not _covers(line, (x, bottom), occupied):
            return Frame(box, line, (x, bottom))
    higher = _wide_enough(replace(box, top=box.top - line.height - _ABOVE), line, strangers)
    left, right = higher.left + _INSET, higher.right - _INSET - line.width
    y = higher.top + _ABOVE + line.ascent
    free = (x for x in _steps(left, right) if not _covers(line, (x, y), occupied))
    x = next(free, None)
    if x is None:
        # A lane would take in lines of others, which would seem to be part of it.
        wider = None if group.is_axis else _widen_leftward(box, line, strangers, occupied)
        return wider or Frame(higher, line, (left, y), covers=True)
    return Frame(higher, line, (x, y))


def _widen_leftward(
    box: Box, line: TextLine, strangers: Sequence[Box], occupied: Sequence[Box]
) -> Frame | None:
    """Return a frame that is widened to the left for its heading, None where a node is there."""
    y = box.top + _ABOVE + line.ascent
    for step in _steps(0.0, _WIDEST):
        wider = replace(box, left=box.left - step)
        if _hits(wider, strangers):
            return None
        if not _covers(line, (wider.left + _INSET, y), occupied):
            return Frame(wider, line, (wider.left + _INSET, y))
    return None


def _wide_enough(box: Box, line: TextLine, strangers: Sequence[Box]) -> Box:
    """Return a frame as wide as its heading, to the side where no other node is."""
    missing = max(line.width + 2 * _INSET - box.width, 0.0)
    ways = (
        replace(box, left=box.left - missing * share, right=box.right + missing * (1 - share))
        for share in (0.0, 1.0, 0.5)
    )
    return next((way for way in ways if not _hits(way, strangers)), box)


def _steps(first: float, last: float) -> Iterator[float]:
    """Yield places from the first to the last."""
    return (first + _STEP * step for step in range(int(max(last - first, 0.0) / _STEP) + 1))


def rank_frames(placed: PlacedFigure) -> list[tuple[float, float]]:
    """Return the top and the bottom of the frames of a rank's column, which bars part."""
    found: list[tuple[float, float]] = []
    for nodes in filter(None, split_at_levels(placed.figure)):
        members = set(nodes)
        boxes = [placed.nodes[node] for node in nodes]
        edges = enumerate(placed.figure.edges)
        inside = (n for n, e in edges if {e.tail, e.head} <= members)
        around = bounding_box(boxes + [placed.labels[n] for n in inside if n in placed.labels])
        top, bottom = around.top - _INSIDE, around.bottom + _INSIDE
        if not found:
            top -= style.GROUP_HEADING + style.GROUP_PADDING
        levels = _levels(placed)
        if found:
            top = _off(top, -1, around.top, levels)
        bottom = _off(bottom, 1, around.bottom, levels)
        middle = (top + bottom) / 2
        for bar in (placed.nodes[level] for level in placed.figure.levels):
            if bar.center[1] < middle:
                top = max(top, bar.bottom + _CLEAR)
            else:
                bottom = min(bottom, bar.top - _CLEAR)
        found.append((top, bottom))
    return found


def _levels(placed: PlacedFigure) -> list[float]:
    """Return the heights of the level parts of lines."""
    parts = (part for path in placed.paths.values() for part in pairwise(path_points(path)))
    return [a[1] for a, b in parts if a[1] == b[1] and abs(a[0] - b[0]) > _ALONG]


def _off(rim: float, sign: int, edge: float, levels: Sequence[float]) -> float:
    """Return the nearest place of a rank's rim at which no line runs along it."""
    ends = (level + side * _OUT for level in levels for side in (1, -1))
    free = (
        place
        for place in sorted((rim, *ends), key=lambda one: abs(one - rim))
        if sign * (place - edge) >= _NEAR
        if all(abs(place - level) >= _OUT - 0.01 for level in levels)
    )
    place = next(free, rim)
    return place if abs(place - rim) < 2 * _INSIDE else rim


def _covers(line: TextLine, at: Point, occupied: Iterable[Box]) -> bool:
    box = line_bounds(line, *at).grown(1.5)
    return any(box.overlaps(other) for other in occupied)


def strips(path: DrawnPath) -> Iterable[Box]:
    """Yield the room that the parts of a line take."""
    for a, b in pairwise(path_points(path)):
        yield Box.between(a, b).grown(1.0)


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
            if place not in SAME_ROW:
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
        """Return where the part of a line below a bar runs next to its label."""
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
    boxes = placed.transpose().nodes if placed.is_turned else placed.nodes
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
        if place in SAME_ROW:
            ends = placed.nodes[edge.tail], placed.nodes[edge.head]
            first, last = sorted(ends, key=lambda box: box.left)
            field.rows[field.row(first)].block(first.right, last.left)
    for number, group in enumerate(placed.figure.groups):
        if group.is_axis and not placed.figure.columns:
            _frame_lane(placed, field, number, group)
    return field


def _frame_lane(placed: PlacedFigure, field: RoutingField, number: int, group: FigureGroup) -> None:
    """Keep vertical foreign lines out of a lane: inside its frame they would seem part of it."""
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
    lines = row.labeled.setdefault(key_of(placed.figure.edges[number], None), [])
    is_paired = number in placed.facts.twins
    if put:
        row.block(*label_range(placed, number, box))
        lines += [] if is_paired else [box.left]
    else:
        row.taken.remove(label_range(placed, number, box))
        if not is_paired:
            lines.remove(box.left)


def label_range(placed: PlacedFigure, number: int, box: Box) -> Range:
    """Return what of its row a label takes: a single line may run at its left end."""
    is_paired = number in placed.facts.twins
    return box.left if is_paired else box.left + CLEAR - 1.0, box.right
