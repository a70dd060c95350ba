"""Route a placed figure: slide labels, move rows apart, give every edge its path."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from math import dist, sqrt
from typing import Final

from xg.diagnostics.lazy_dataclass import dataclass, field, replace
from xg.figures.draw.glyph import head_width
from xg.figures.layout.choose_routes import Router
from xg.figures.layout.field import (
    APART,
    CLEAR,
    FAR,
    Key,
    NodeSide,
    Range,
    RimPort,
    Route,
    RoutingField,
)
from xg.figures.layout.lanes import label_lanes, lanes_beyond
from xg.figures.layout.placement import PlacedFigure
from xg.figures.layout.request import (
    RouteRequest,
    bars_of,
    field_of,
    is_round,
    label_blocks,
    label_range,
    pair_shift,
    side_room,
    text_gap,
)
from xg.figures.model import figure as style
from xg.figures.model.figure import (
    Box,
    DrawnPath,
    EdgeStyle,
    Emphasis,
    Point,
    backward,
    polyline,
    rounded,
)
from xg.figures.model.structure import SAME_ROW, EdgePlace

# Channels: at which height level parts run in a gap, so that none overlap and few cross.
#
# A gap that is too low for its lines is made higher: everything below moves down.


_ABOVE: Final = 4.5  # between a row and the first line below it
_BEND: Final = 9.0  # where a line leaves the row downwards and bends: room for a round corner
_BELOW: Final = 5.0  # between the last line and the row below it
_HEAD: Final = style.ARROW_LENGTH + 6.0  # that much where arrows enter the row from above
_LOW: Final = 0.7  # of a circle's radius: how far below its middle a line leaves its side
_CLEAR: Final = 1.7  # between a head at a circle's side and the middle of the line below it
_MOST_OFF: Final = 1.5  # how far a head may be above the middle of a circle's side
_MOST_ROUNDS: Final = 4


@dataclass(slots=True)
class _Bar:
    """Level parts of one line that come from one place, or go to one, at one height."""

    key: Key
    low: float
    high: float
    tops: set[float] = field(default_factory=set[float])  # where it comes from above
    feet: set[float] = field(default_factory=set[float])  # where it goes down
    members: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])
    level: int = 0
    half: float = 0.0


@dataclass(frozen=True, slots=True)
class Channels:
    """The height of each level part, by edge and number of its turn, and how far rows move down."""

    heights: Mapping[tuple[int, int], float]
    shifts: Sequence[float]


def channels(
    field_: RoutingField, routes: Mapping[int, Route], levels: Collection[int] = ()
) -> Channels:
    """Give each level part a height; rows of `levels` hide what passes, but no bend."""
    bars = _bars(routes)
    heads = _heads(routes)
    left = {route.start.row for route in routes.values() if not route.start.side.is_level}
    bent = _bent(routes)
    backs = _backs(routes)
    heights: dict[tuple[int, int], float] = {}
    shifts: list[float] = []
    moved = 0.0
    for gap, row in enumerate(field_.rows):
        shifts.append(moved)
        here = bars.get(gap, [])
        if not here:
            continue
        count = _assign_levels(_order_bars(here))
        half = max(bar.half for bar in here)
        apart = APART + 2 * half
        # Pairs have heads at both ends.
        has_heads = bool(half) and gap in left
        has_heads = has_heads or any(
            bar.low < x < bar.high for bar in here for x in backs.get(gap, ())
        )
        above = _HEAD if has_heads else _BEND if gap in bent or gap in levels else _ABOVE
        top = row.bottom + half + above
        room = half + (_HEAD if gap in heads else _BEND if gap + 1 in levels else _BELOW)
        bottom = field_.rows[gap + 1].top - room if gap + 1 < len(field_.rows) else top
        extra = max(0.0, (count - 1) * apart - (bottom - top))
        step = apart if count == 1 else min((bottom + extra - top) / (count - 1), 1.3 * apart)
        for bar in here:
            heights.update(dict.fromkeys(bar.members, moved + top + step * bar.level))
        moved += extra
    return Channels(heights, shifts)


def _bent(routes: Mapping[int, Route]) -> set[int]:
    """Find the gaps in which lines bend that left the row above from below."""
    down = (route for route in routes.values() if not route.start.side.is_level)
    return {gap for route in down for gap, _, _ in route.turns() if gap == route.start.row}


def _backs(routes: Mapping[int, Route]) -> Mapping[int, list[float]]:
    """Return where arrows back enter rows from below."""
    backs: dict[int, list[float]] = defaultdict(list)
    for route in routes.values():
        if route.half and not route.start.side.is_level:
            backs[route.start.row].append(route.runs[0].x + route.half)
    return backs


def _bars(routes: Mapping[int, Route]) -> dict[int, list[_Bar]]:
    """Join the level parts that are one line: what branches at one place."""
    by_gap: dict[int, dict[tuple[Key, float], _Bar]] = defaultdict(dict)
    for number, route in routes.items():
        for turn, (gap, a, b) in enumerate(route.turns()):
            bar = by_gap[gap].setdefault((route.key, a), _Bar(route.key, a, a, half=route.half))
            bar.low, bar.high = min(bar.low, a, b), max(bar.high, a, b)
            bar.tops.add(a)
            bar.feet.add(b)
            bar.members.append((number, turn))
    return {gap: list(some.values()) for gap, some in by_gap.items()}


def _heads(routes: Mapping[int, Route]) -> set[int]:
    """Find the gaps in which level parts run above arrows that enter a row."""
    entered = {(route.end.row - 1) for route in routes.values() if not route.end.side.is_level}
    turned = {gap for route in routes.values() for gap, _, _ in route.turns()}
    return entered & turned


def _order_bars(bars: list[_Bar]) -> list[_Bar]:
    """Order the lines of a gap from top to bottom, for few crossings: insert each at its best."""
    order = sorted(bars, key=lambda bar: (bar.low + bar.high, bar.low))
    for _ in range(_MOST_ROUNDS if len(bars) > 1 else 0):
        before = list(order)
        for bar in before:
            order.remove(bar)
            costs = _costs_at(order, bar)
            order.insert(costs.index(min(costs)), bar)
        if order == before:
            break
    for place, bar in enumerate(order):
        bar.level = place
    return order


def _costs_at(order: Sequence[_Bar], bar: _Bar) -> list[int]:
    """Return what a line costs at each place among others: below those before, above the rest."""
    costs = [sum(_cost(bar, one) for one in order)]
    for one in order:
        costs.append(costs[-1] + _cost(one, bar) - _cost(bar, one))
    return costs


def _cost(above: _Bar, below: _Bar) -> int:
    """Return the crossings where one line is above another; an overlap costs more."""
    if above.key == below.key:
        return 0
    crossed = sum(below.low < x < below.high for x in above.feet)
    crossed += sum(above.low < x < above.high for x in below.tops)
    least = APART - 0.5 + above.half + below.half
    touching = sum(abs(x - y) < least for x in above.feet for y in below.tops)
    return crossed + 50 * touching


def _assign_levels(order: Sequence[_Bar]) -> int:
    """Let lines that are not above each other share a height; return the number of heights."""
    for place, bar in enumerate(order):
        over = (
            one.level
            for one in order[:place]
            if one.low - APART - one.half - bar.half < bar.high
            and bar.low < one.high + APART + one.half + bar.half
        )
        bar.level = max(over, default=-1) + 1
    return max((bar.level for bar in order), default=-1) + 1


def stops(
    routes: Mapping[int, Route],
    rooms: Mapping[str, float],
    circles: Collection[str],
    styles: Mapping[int, EdgeStyle],
) -> dict[tuple[int, bool], float]:
    """Return how far below the middle of a node's side each line meets it, by edge and end.

    From top to bottom: what comes in from above, the nearer first; then what goes out and down,
    the farther first. Lines of one key that go out are one.
    """
    sides: dict[tuple[str, NodeSide], list[tuple[Route, bool]]] = defaultdict(list)
    for route in routes.values():
        if route.start.side.is_level:
            sides[route.start.node, route.start.side].append((route, True))
        if route.end.side.is_level:
            sides[route.end.node, route.end.side].append((route, False))
    offsets: dict[tuple[int, bool], float] = {}
    for (node, _), here in sides.items():
        levels = _levels(here)
        wide = 2 * max(route.half for route, _ in here)
        if node in circles and not wide and [is_out for ((_, is_out), *_) in levels] == [0, 1]:
            heights = _of_circle(rooms[node] / 2, *(styles[one[0].number] for one, *_ in levels))
        else:
            gap = min(style.RAIL_GAP + wide, (rooms[node] - 6.0 - wide) / max(len(levels) - 1, 1))
            first = -gap * (len(levels) - 1) / 2
            heights = [first + gap * level for level in range(len(levels))]
        for height, members in zip(heights, levels, strict=True):
            offsets.update(((route.number, is_out), height) for route, is_out in members)
    return offsets


def _of_circle(radius: float, entering: EdgeStyle, leaving: EdgeStyle) -> tuple[float, float]:
    """Return where the only arrow that enters a side of a circle and a line that leaves it are.

    The arrow aims at the middle, or almost; the line leaves below, where the rim still faces that
    side: of a double one both lines do.
    """
    half = style.DOUBLE_GAP / 2 if leaving is EdgeStyle.DOUBLE else 0.0
    apart = head_width(entering, Emphasis.NONE) / 2 + _CLEAR + half
    above = min(0.0, max(_LOW * radius - half - apart, -_MOST_OFF))
    return above, max(_LOW * radius - half, above + apart)


def _levels(here: Sequence[tuple[Route, bool]]) -> list[list[tuple[Route, bool]]]:
    def distance(one: tuple[Route, bool]) -> float:
        route, is_out = one
        return abs(route.runs[0].x - route.start.x if is_out else route.runs[-1].x - route.end.x)

    incoming = sorted((one for one in here if not one[1]), key=distance)
    outgoing = sorted((one for one in here if one[1]), key=distance, reverse=True)
    levels: list[list[tuple[Route, bool]]] = [[one] for one in incoming]
    by_key: dict[Key, list[tuple[Route, bool]]] = {}
    for one in outgoing:
        if one[0].key in by_key:
            by_key[one[0].key].append(one)
        else:
            by_key[one[0].key] = [one]
            levels.append(by_key[one[0].key])
    return levels


# Sliding labels: where a line bends only because its label is elsewhere, the label moves to it.
#
# The layout engine knows nothing of the sides by which lines enter, so a label may be a little
# beside the way that its line would take. It slides in its row, to a place where nothing else is;
# where the label of another line of its node is in its way, both do.


_INWARD: Final = 4.0  # how far off the end of free room a line keeps, if it can
_ROUNDING: Final = 1e-6
_LEAST_SAVING: Final = 5.0  # that a slide must save: half a corner
_TRIED_AT_MOST: Final = 256  # places of labels in one layout: each is a search for a way


def slide_labels(router: Router, route_requests: Sequence[RouteRequest]) -> dict[int, Box]:
    """Take up the edges again that turn beside their labels; return all labels, some elsewhere.

    Those of a column stay: whatever bends it, it is not its label. So do those at bars.
    """
    sheet = _SlidingLabels(router)
    bars = bars_of(router.placed)
    aside = (one for one in route_requests if one.place is not EdgePlace.DOWN)
    labeled = [one for one in aside if one.via and bars.isdisjoint((one.upper, one.lower))]
    for request in labeled:
        if sheet.turns(request) and not sheet.improve(request):
            for other in labeled:
                is_near = other is not request and other.upper == request.upper
                if is_near and sheet.improve(other, request):
                    break
    return sheet.labels


class _SlidingLabels:
    """The labels of a figure on their way to other places."""

    def __init__(self, router: Router) -> None:
        self.router = router
        self.labels = dict(router.placed.labels)
        self.tried = 0

    def turns(self, request: RouteRequest) -> bool:
        """Return whether an edge turns on its way from node to node."""
        return any(self.router.routes[request.number].turns())

    def improve(self, *asked: RouteRequest) -> bool:
        """Move the labels of one or two edges to where they cost least, if that saves enough.

        None of what it saves is paid for by crossings.
        """
        old = [self.router.routes[one.number] for one in asked]
        boxes = [self.labels[one.number] for one in asked]
        lowest, trouble = self._cost(old) - _LEAST_SAVING, self._trouble(old)
        best = list(zip(old, boxes, strict=True))
        for route, box in best:
            self._take(route, box)
        for routes, moved in self._ways(asked, old, lowest):
            cost = self._cost(routes)
            if cost < lowest and self._trouble(routes) <= trouble:
                lowest, best = cost, list(zip(routes, moved, strict=True))
        for route, box in best:
            self._put(route, box)
        return [box for _, box in best] != boxes

    def _cost(self, routes: Sequence[Route]) -> float:
        return sum(map(self.router.cost, routes))

    def _trouble(self, routes: Sequence[Route]) -> float:
        return sum(map(self.router.trouble, routes))

    def _ways(
        self, asked: Sequence[RouteRequest], old: Sequence[Route], limit: float
    ) -> Iterator[tuple[list[Route], list[Box]]]:
        """Yield the routes and the labels of edges for all places of these; they are on the field.

        None is on it before and afterwards. All that cost less than the limit are among them.
        """
        if not asked:
            yield [], []
            return
        for route, box in list(self._places(asked[0], old[0], limit)):
            self._put(route, box)
            rest = limit - self.router.cost(route) if asked[1:] else limit
            for routes, boxes in self._ways(asked[1:], old[1:], rest):
                yield [route, *routes], [box, *boxes]
            self._take(route, box)

    def _places(
        self, request: RouteRequest, old: Route, limit: float
    ) -> Iterator[tuple[Route, Box]]:
        """Yield where a label may be, the nearest first, with the best route that passes there.

        None that costs more than the limit, apart from what rounding adds, and none where so many
        were tried that the layout would take long.
        """
        assert request.via is not None
        (row, line), box = request.via, self.router.placed.labels[request.number]
        places = {line, *self._lines(request, row, old, box.width)}
        for x in sorted(places, key=lambda x: (abs(x - line), x)):
            moved = box.moved(x - line, 0.0)
            room = label_range(self.router.placed, request.number, moved)
            if self.tried == _TRIED_AT_MOST:
                return
            if abs(x) < FAR / 2 and _is_free(self.router.field, row, room, request.lanes):
                self.tried += 1
                route = self.router.cheaper(replace(request, via=(row, x)), limit + _ROUNDING)
                if route is not None and any(x == run.x for run in route.runs):
                    yield route, moved

    def _lines(self, request: RouteRequest, row: int, old: Route, width: float) -> Iterator[float]:
        """Yield where a line may run: where it does elsewhere, where it may end, beside boxes."""
        yield from (run.x for run in old.runs)
        for port in (*request.starts, *request.ends):
            if port.side.is_level:
                for low, high in self.router.places(request, port):
                    inward = min(_INWARD, (high - low) / 2)
                    yield from (low + inward, high - inward)
            elif not port.wide:
                yield port.x
        for left, right in self.router.field.rows[row].taken:
            yield from (right + APART + CLEAR, left - width - APART)

    def _put(self, route: Route, box: Box) -> None:
        self.router.put(route)
        self.labels[route.number] = box
        label_blocks(self.router.placed, self.router.field, route.number, box, put=True)

    def _take(self, route: Route, box: Box) -> None:
        self.router.take(route)
        label_blocks(self.router.placed, self.router.field, route.number, box, put=False)


def _is_free(field: RoutingField, row: int, room: Range, lanes: Collection[int]) -> bool:
    """Return whether a part of a row is empty: no box, no line, no foreign lane."""
    low, high = room[0] - APART, room[1] + APART
    lines = [x for some in field.upright[row].values() for x, *_ in some]
    level = [(a, b) for some in field.flat[row].values() for a, b, *_ in some]
    framed = [one for lane, one in field.rows[row].framed.items() if lane not in lanes]
    boxes = (*field.rows[row].taken, *level, *framed)
    return not any(a < high and low < b for a, b in boxes) and not any(
        low < x < high for x in lines
    )


_SAME: Final = 0.01
_HEADS: Final = style.ARROW_WIDTH + 0.5  # between the tips of two that do not touch
_STUB: Final = 1.5  # of a line without a head, where it leaves a node
_STRAIGHT: Final = style.ARROW_LENGTH + 0.5  # of a line, at an end with a head


def route_figure(placed: PlacedFigure) -> PlacedFigure:
    """Return the figure with a path for every edge; its rows may have moved down."""
    done = _route_with_rooms(placed, {})
    found = label_lanes(done)
    if found.crowded and not done.dense:
        done = _route_with_rooms(placed, found.crowded)
        found = label_lanes(done)
    return _outside(done, lanes_beyond(done, found)) if placed.facts.twins else done


def _route_with_rooms(placed: PlacedFigure, rooms: Mapping[int, float]) -> PlacedFigure:
    field = field_of(placed)
    router = Router(placed, field, rooms)
    routes = router.run()
    if router.patience.left > 0:
        placed = replace(placed, labels=slide_labels(router, router.requests))
    levels = {field.row(placed.nodes[bar]) for bar in placed.figure.levels}
    channel_levels = channels(field, routes, levels)
    moved = _shift_rows(placed, field, channel_levels)
    sides = {node: side_room(placed, node) for node in placed.nodes}
    circles = [node for node in placed.nodes if is_round(placed, node)]
    styles = {number: placed.figure.edges[number].style for number in routes}
    sheet = _RouteContext(moved, channel_levels, stops(routes, sides, circles, styles))
    twins, shift = placed.facts.twins, pair_shift(placed)
    paths: dict[int, DrawnPath] = {}
    for number, route in routes.items():
        paths[number] = sheet.path(route, -route.half)
        if number in twins:
            paths[twins[number]] = backward(sheet.path(route, route.half))
    for number, place in enumerate(placed.facts.places):
        if place in SAME_ROW:
            half = shift if number in twins else 0.0
            paths[number] = _flat(moved, number, place, half)
            if number in twins:
                paths[twins[number]] = backward(_flat(moved, number, place, -half))
    if router.patience.left <= 0:
        return replace(moved, paths=paths, dense=True)
    return replace(moved, paths=paths, cramped=router.crowded_nodes())


def _outside(placed: PlacedFigure, lanes: Iterable[int]) -> PlacedFigure:
    """Return the figure with some lanes at the other side of their ways back, where labels are.

    One stays where a head would touch that of another arrow, which is beside it.
    """
    paths = dict(placed.paths)
    for number in lanes:
        back = placed.facts.twins[number]
        changed = {number: backward(paths[back]), back: backward(paths[number])}
        others = [path.end for other, path in paths.items() if other not in changed]
        if all(dist(one.end, end) > _HEADS for one in changed.values() for end in others):
            paths |= changed
    return replace(placed, paths=paths)


def _shift_rows(placed: PlacedFigure, field: RoutingField, found: Channels) -> PlacedFigure:
    nodes = {n: box.moved(0.0, found.shifts[field.row(box)]) for n, box in placed.nodes.items()}
    labels = {n: box.moved(0.0, found.shifts[field.row(box)]) for n, box in placed.labels.items()}
    return replace(placed, nodes=nodes, labels=labels)


@dataclass(frozen=True, slots=True)
class _RouteContext:
    """The context in which paths are drawn: moved boxes, heights in gaps, heights at nodes."""

    placed: PlacedFigure
    found: Channels
    offsets: Mapping[tuple[int, bool], float]

    def path(self, route: Route, shift: float) -> DrawnPath:
        """Return the path of a route, or of the line that far at the side of it."""
        radius = style.CORNER if not shift else style.CORNER - 1.0
        # One of a pair has a head at its start, or the arrow back has.
        straight = (_STRAIGHT if route.half else _STUB, _STRAIGHT)
        return rounded(self.points(route, shift), radius, straight)

    def points(self, route: Route, shift: float) -> list[Point]:
        """Return the corners of a route, from its upper end to its lower one.

        A line runs `shift` to the right of a route that leads down, and keeps to its side.
        """
        points = [self._rim(route, route.start, shift, is_start=True)]
        for turn, (_, a, b) in enumerate(route.turns()):
            y = self.found.heights[route.number, turn] - (shift if b > a else -shift)
            points += [(a + shift, y), (b + shift, y)]
        end = self._rim(route, route.end, shift, is_start=False)
        if route.start.side.is_level:
            points.insert(1, (route.runs[0].x + shift, points[0][1]))
        if route.end.side.is_level:
            points.append((route.runs[-1].x + shift, end[1]))
        return _corners([*points, end])

    def _rim(self, route: Route, port: RimPort, shift: float, *, is_start: bool) -> Point:
        """Return where a line meets the rim of a node: both of two, if it leaves there."""
        box = self.placed.nodes[port.node]
        is_double = self.placed.figure.edges[route.number].style is EdgeStyle.DOUBLE
        half = style.DOUBLE_GAP / 2 if is_start and is_double else 0.0
        if port.side.is_level:
            away = port.side.sign if is_start else -port.side.sign  # the direction of travel
            offset = self.offsets[route.number, is_start] - away * shift
            return self._side_point(box, port, offset, half)
        x = route.runs[0 if is_start else -1].x + shift
        sign = 1 if port.side is NodeSide.BOTTOM else -1
        reach = box.height / 2
        if is_round(self.placed, port.node):
            reach = sqrt(max(reach**2 - (abs(x - box.center[0]) + half) ** 2, 0.0))
        reach += text_gap(self.placed, port.node, port.side)
        return x, box.center[1] + sign * reach

    def _side_point(self, box: Box, port: RimPort, offset: float, half: float) -> Point:
        reach = box.width / 2
        if is_round(self.placed, port.node):
            reach = sqrt(max(reach**2 - (abs(offset) + half) ** 2, 0.0))
        reach += text_gap(self.placed, port.node, port.side)
        return box.center[0] + port.side.sign * reach, box.center[1] + offset


def _corners(points: Sequence[Point]) -> list[Point]:
    """Return the two ends and the corners: no point twice, none on a straight line."""
    corners: list[Point] = []
    for point in points:
        if corners and abs(point[0] - corners[-1][0]) + abs(point[1] - corners[-1][1]) < _SAME:
            continue
        if len(corners) > 1 and any(
            abs(corners[-2][axis] - corners[-1][axis]) < _SAME
            and abs(corners[-1][axis] - point[axis]) < _SAME
            for axis in (0, 1)
        ):
            corners.pop()
        corners.append(point)
    return corners


def _flat(placed: PlacedFigure, number: int, place: EdgePlace, half: float) -> DrawnPath:
    """Return the line from a tensor into the side of the node that it is beside, or out to it.

    Of two lines one runs `half` at the right-hand side of the way to the node.
    """
    edge = placed.figure.edges[number]
    is_out = place in (EdgePlace.TO_LEFT, EdgePlace.TO_RIGHT)
    tensor, node = (edge.head, edge.tail) if is_out else (edge.tail, edge.head)
    beside, middle = placed.nodes[tensor], placed.nodes[node]
    sign = 1 if place in (EdgePlace.FROM_LEFT, EdgePlace.TO_LEFT) else -1
    y = middle.center[1] + sign * half
    reach = middle.width / 2
    if is_round(placed, node):
        reach = sqrt(max(reach**2 - half**2, 0.0))
    gap = text_gap(placed, tensor, NodeSide.RIGHT if sign > 0 else NodeSide.LEFT)
    own_gap = text_gap(placed, node, NodeSide.LEFT if sign > 0 else NodeSide.RIGHT)
    start = beside.center[0] + sign * (beside.width / 2 + gap)
    path = polyline(((start, y), (middle.center[0] - sign * (reach + own_gap), y)))
    return backward(path) if is_out else path
