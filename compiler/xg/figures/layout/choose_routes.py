"""Route every edge straight or by right angles, around all that is in its way.

Each edge in turn takes the cheapest of its ways: few corners, few crossings, short. Then each is
taken up once more, as those that came later may leave it a better one, edges of one node that are
in each other's way change their turns, and lanes that follow each other their sides.

An arrow of the pass in which a bar sends nothing goes through it as a hairline: a solid arrow that
ends at the bar says that something is reduced there.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from heapq import heappop, heappush
from itertools import combinations, pairwise, product
from math import nextafter
from operator import itemgetter
from typing import Final, TypeAlias

from xg.diagnostics.lazy_dataclass import dataclass, replace
from xg.diagnostics.lazy_dataclass import field as dataclass_field
from xg.figures.layout.field import (
    APART,
    CLASH,
    CLEAR,
    CORNER,
    CROSSING,
    FAR,
    HEAD,
    HOPELESS,
    LENGTH,
    ROUNDING,
    LineField,
    LineRun,
    NodeSide,
    Range,
    RimPort,
    Route,
    RouteBound,
    RoutingField,
    Way,
    free,
    free_at_bar,
    targets,
)
from xg.figures.layout.placement import PlacedFigure
from xg.figures.layout.request import PORT_APART, RouteRequest, requests, side_room
from xg.figures.model import figure as style
from xg.figures.model.structure import EdgePlace

_PATIENCE: Final = 2_000_000  # ways and crossings looked at for one figure: a few seconds
_EACH_PAIR: Final = 50  # of it, for a pair of ports


@dataclass()
class Patience:
    """The work that is left for the search of a figure's routes."""

    left: int = _PATIENCE


# Search: the way with the fewest corners and crossings down from one gap to another.


_LEAST_STEP: Final = 9.0  # to the side, at a turn
_INWARD: Final = 4.0  # how far off the end of a range a line keeps, if it can

# The runs before the one that a way is on: the last of them, its gap, and those before it.
_Before: TypeAlias = "tuple[Range, int, _Before] | None"
# A way so far: its cost, where the run that it is on may be, and the runs before.
_State: TypeAlias = tuple[float, float, float, _Before]
_COST: Final = itemgetter(0)


@dataclass()
class Search:
    """The ways from places in one gap down to another; `via` is a row and the place there.

    The steps on the way down are made once, for every end. A way that costs `most` is of no use.
    """

    field: LineField
    starts: Sequence[Range]
    first: int
    last: int
    via: tuple[int, float] | None
    near: float  # where a line runs that may run anywhere
    most: float
    bound: RouteBound | None
    patience: Patience

    def __post_init__(self) -> None:
        offs = [abs(_clamp(self.near, one) - self.near) * LENGTH for one in self.starts]
        self._states: list[_State] = [
            (off, *one, None) for off, one in zip(offs, self.starts, strict=True)
        ]
        # A beginning far off only decides between ways: they need not cost so much.
        self._off = max((off for off in offs if off <= self.most), default=0.0)
        self._gap = self.first
        self._keep_hopeful()

    def _keep_hopeful(self) -> None:
        """Order the ways by their cost, without those that cost too much in the end.

        They cost more than is of use, or far more than the best does so far.
        """
        states = self._states
        lowest = min(states, key=_COST)[0] if states else FAR * FAR
        if self.bound is not None and self._gap > self.first:
            most = self.most + self._off + ROUNDING
            states = [one for one, rest in zip(states, self.bound.rests[self._gap], strict=True)
                      if one[0] + rest <= most]  # fmt: skip
        most = min(lowest + HOPELESS, self.most)
        self._states = sorted((one for one in states if one[0] <= most), key=_COST)
        self._lowest = lowest if self._states else FAR * FAR

    def to(self, ends: Sequence[Range], limit: float) -> tuple[LineRun, ...] | None:
        """Return the runs of the best way to one of the ends, None where it costs too much."""
        while self._gap < self.last and self._lowest < limit:
            self._states = self._next_states(targets(self.field, self._gap + 1, self.via))
            self._gap += 1
            self._keep_hopeful()
        if self._lowest >= limit:
            return None
        last = [(low, high, 0) for low, high in ends]
        found = self._next_states(last) if self.first <= self.last else self._states
        _, low, high, before = min(found, key=_COST)
        ranges, gaps = [(low, high)], [self.last]
        while before is not None:
            one, gap, before = before
            ranges.insert(0, one)
            gaps.insert(0, gap)
        xs = _choose_places(ranges, self.near)
        gaps.insert(0, self.first)
        return tuple(LineRun(x, a, b) for x, a, b in zip(xs, gaps, gaps[1:], strict=False))

    def _next_states(self, targets: Sequence[Way]) -> list[_State]:
        """Return the best continuation in each range: straight on, or by a turn in the gap."""
        gap, near, states = self._gap, self.near, self._states
        lines = self.field.gap(gap)
        has_level, has_turns = bool(lines.starts), bool(lines.turns)
        ways = [(*one, lines.until(one[1]), lines.through_to(one[2])) for one in states]
        found: list[_State] = []
        self.patience.left -= len(ways) * len(targets)
        for low, high, levels in targets:
            best: _State | None = None
            lowest = FAR * FAR
            until_low, to_high = lines.until(low), lines.through_to(high)
            for so_far, left, right, before, until_left, to_right in ways:
                if so_far >= lowest:
                    break
                a, b = left if left > low else low, right if right < high else high
                if a <= b:
                    cost = so_far
                    if has_level:
                        x = a if near < a else b if near > b else near
                        cost += CROSSING * lines.crossed_level(x)
                    if cost < lowest:
                        lowest, best = cost, (cost, a, b, before)
                    continue
                # Outside of the range: to its nearer end, from the nearer end of this one.
                if right < low:
                    cost = so_far + 2 * CORNER + LENGTH * (low - right)
                    crossed = until_low - to_right
                else:
                    cost = so_far + 2 * CORNER + LENGTH * (left - high)
                    crossed = until_left - to_high
                if cost + CROSSING * crossed < lowest:
                    if has_turns:
                        ends = (right, low) if right < low else (left, high)
                        crossed += lines.crossed_turns(*ends)
                    cost += CROSSING * crossed
                    if cost < lowest:
                        lowest, best = cost, (cost, low, high, ((left, right), gap, before))
            assert best is not None
            found.append((best[0] + CROSSING * levels, best[1], best[2], best[3]))
        return found


def _choose_places(ranges: Sequence[Range], near: float) -> list[float]:
    """Choose a place in every range: as near to the one before as can be."""
    xs: list[float] = []
    for place, (low, high) in enumerate(ranges):
        first = _clamp(near, ranges[1]) if len(ranges) > 1 else near
        aim = xs[-1] if place > 0 else first
        inward = min(_INWARD, (high - low) / 2)
        xs.append(_clamp(aim, (low + inward, high - inward)))
    for place, (one, other) in enumerate(pairwise(list(xs))):
        short = _LEAST_STEP - abs(other - one)
        if short > 0:  # two round corners need room between them
            sign = 1 if other > one else -1
            xs[place] = _clamp(xs[place] - sign * short, ranges[place])
            short = _LEAST_STEP - abs(xs[place + 1] - xs[place])
            xs[place + 1] = _clamp(xs[place + 1] + sign * max(short, 0.0), ranges[place + 1])
    return xs


def _clamp(x: float, within: Range) -> float:
    return min(max(x, within[0]), within[1])


# The ways of one edge from port to port; searches that begin in the same way are one.


@dataclass()
class EdgeWays:
    """The ways of a requested edge on a field with other lines, and what was found of them."""

    placed: PlacedFigure
    field: RoutingField
    request: RouteRequest
    seen: LineField
    patience: Patience
    searches: dict[tuple[int, float], Search] = dataclass_field(
        default_factory=dict[tuple[int, float], Search]
    )
    ranges: dict[int, list[Range]] = dataclass_field(default_factory=dict[int, list[Range]])
    bound: RouteBound | None = None

    def between(self, start: RimPort, end: RimPort, lowest: float) -> Route | None:
        """Return the best way from port to port, None where it costs more."""
        request = self.request
        self.patience.left -= _EACH_PAIR
        starts, ends = self.places(start), self.places(end)
        if not starts or not ends:
            return None
        limit = lowest - _cost(start) - _cost(end)
        if start.row < end.row and limit <= _turn(starts, ends):
            return None
        near = self._near(start, end)
        search = self.searches.get((id(start), near))
        if search is None:
            most = lowest - _cost(start)
            bound = self._bound(start.row, end.row, lowest)
            if bound is not None and bound.left(start.row, starts) > most + ROUNDING:
                return None
            last = end.row - 1
            search = Search(
                self.seen, starts, start.row, last, request.via, near, most, bound, self.patience
            )
            self.searches[id(start), near] = search
        runs = search.to(ends, limit)
        if runs is None:
            return None
        return Route(request.number, request.key, start, end, runs, request.half, request.room)

    def _bound(self, first: int, last: int, lowest: float) -> RouteBound | None:
        """Return a bound on ways that cost less than the lowest so far, if one is known."""
        if self.bound is None and first < last and lowest < FAR * FAR:
            ends = [(place, _cost(end)) for end in self.request.ends for place in self.places(end)]
            rows = range(first + 1, last)
            self.bound = RouteBound(self.seen, ends, rows, self.request.via, lowest)
        return self.bound

    def _near(self, start: RimPort, end: RimPort) -> float:
        """Return where a line runs that may run anywhere: as below its bar, or beside both ends."""
        if end.at_bar and self.request.aim is not None:
            return self.request.aim
        if not start.side.is_level or not end.side.is_level:
            return end.x if start.side.is_level else start.x
        boxes = [self.placed.nodes[start.node], self.placed.nodes[end.node]]
        reach = style.LANE_GAP + style.CORNER
        if end.side is NodeSide.LEFT:
            return min(box.left for box in boxes) - reach
        return max(box.right for box in boxes) + reach

    def places(self, port: RimPort) -> list[Range]:
        """Return where the run that begins or ends at a port may be."""
        if not port.side.is_level and not port.at_bar:
            return [(port.x, port.x)]
        if id(port) not in self.ranges:
            low, high = self._level_range(port)
            key, half, lanes = self.request.key, self.request.half, self.request.lanes
            if port.at_bar:
                here = free_at_bar(self.field, port.row, key, half)
            else:
                here = free(self.field, port.row, key, half, 0.0, lanes)
            within = ((max(left, low), min(right, high)) for left, right in here)
            self.ranges[id(port)] = [(a, b) for a, b in within if a <= b]
        return self.ranges[id(port)]

    def _level_range(self, port: RimPort) -> Range:
        """Return where a line may be that leaves a port: a level one before it meets a box."""
        if port.at_bar:
            return (-FAR, FAR) if port.wide else (port.x, port.x)
        half, taken = self.request.half, self.field.rows[port.row].taken
        if port.side is NodeSide.RIGHT:
            ends = [left - CLEAR - half for left, _ in taken if left >= port.x - 0.5]
            return port.x + HEAD + half, min(ends, default=FAR)
        ends = [right + CLEAR + half for _, right in taken if right <= port.x + 0.5]
        return max(ends, default=-FAR), port.x - HEAD - half


def _cost(port: RimPort) -> float:
    return port.cost + CORNER * port.side.is_level


def _turn(starts: Sequence[Range], ends: Sequence[Range]) -> float:
    """Return what a way between places costs at least: nothing if it may run straight."""
    apart = min(max(c - b, a - d) for a, b in starts for c, d in ends)
    return 2 * CORNER + LENGTH * apart if apart > 0 else 0.0


_LEAST_STOP: Final = 5.6  # between two lines at one side of a node
_LEAST_HEADS: Final = 6.1  # if arrows enter there
_KINK: Final = 5.0  # a step to the side that is less looks wrong


@dataclass()
class Router:
    """Routes, by edge, on a field; `rooms` are kept free at the left of some, for their labels."""

    placed: PlacedFigure
    field: RoutingField
    rooms: Mapping[int, float] = dataclass_field(default_factory=dict[int, float])

    def __post_init__(self) -> None:
        self.patience = Patience()
        self.routes: dict[int, Route] = {}
        self.ports: dict[tuple[str, NodeSide], dict[int, tuple[RimPort, Route]]] = defaultdict(dict)

    def run(self) -> Mapping[int, Route]:
        """Route every edge; where too many cross, those that are left run beside the figure."""
        route_requests = self.requests = list(requests(self.placed, self.field, self.rooms))
        for place, request in enumerate(route_requests):
            if self.patience.left <= 0:
                for route in self._beside(route_requests[place:]):
                    self.put(route)
                break
            self.put(self.best(request))
        for request in route_requests:
            old = self.routes[request.number]
            if self.patience.left > 0 and self.trouble(old) > 0:
                self.take(old)
                self.put(self.best(request, old))
        if self.patience.left <= 0:
            return self.routes
        for several in self._branching(route_requests):
            for one, other in combinations(several, 2):
                if self.patience.left > 0 and self._is_in_the_way(one, other):
                    self._reorder(other, one)
        for chain in self._chains(route_requests):
            if self.patience.left > 0:
                self._reorder(*chain)
        return self.routes

    def _branching(self, asked: Sequence[RouteRequest]) -> Iterable[list[RouteRequest]]:
        """Return the edges that leave one node and are in others' way, the shortest first."""
        found: dict[str, list[RouteRequest]] = defaultdict(list)
        for request in asked:
            if self.trouble(self.routes[request.number]) > 0:
                found[request.upper].append(request)
        return found.values()

    def _chains(self, asked: Sequence[RouteRequest]) -> Iterator[list[RouteRequest]]:
        """Yield lanes that meet, each where others end or begin, one in others' way first.

        They are at the left and at the right in turn, so all of them change sides or none.
        """
        rest = {one.number: one for one in asked if one.place is EdgePlace.LANE}
        at: dict[str, list[int]] = defaultdict(list)
        for lane in rest.values():
            at[lane.upper].append(lane.number)
            at[lane.lower].append(lane.number)
        for number in tuple(rest):
            if number in rest and self.trouble(self.routes[number]) > 0:
                chain = [rest.pop(number)]
                for one in chain:
                    near = (*at[one.upper], *at[one.lower])
                    chain += [rest.pop(other) for other in near if other in rest]
                yield chain

    def _is_in_the_way(self, one: RouteRequest, other: RouteRequest) -> bool:
        """Return whether an edge has less trouble without another."""
        route, removed = self.routes[one.number], self.routes[other.number]
        trouble = self.trouble(route)
        self.take(removed)
        is_better = self.trouble(route) < trouble
        self.put(removed)
        return is_better

    def _reorder(self, *several: RouteRequest) -> None:
        """Route edges again in another order, so that some may take the ways of others."""
        old = [self.routes[one.number] for one in several]
        before = sum(map(self.cost, old))
        for route in old:
            self.take(route)
        for request in several:
            self.put(self.best(request))
        new = [self.routes[one.number] for one in several]
        if sum(map(self.cost, new)) >= before:
            for route in new:
                self.take(route)
            for route in old:
                self.put(route)

    def crowded_nodes(self) -> frozenset[str]:
        """Return the nodes at which lines are too near to each other or to something, or kinked."""
        tight = (one for one in self.routes.values() if _has_kink(one) or self._clashes(one) > 0)
        return frozenset(port.node for one in tight for port in (one.start, one.end))

    def put(self, route: Route) -> None:
        """Draw a route on the field."""
        self.routes[route.number] = route
        self.field.add(route)
        for port in (route.start, route.end):
            self.ports[port.node, port.side][route.number] = (port, route)

    def take(self, route: Route) -> None:
        """Take a route off the field."""
        self.field.remove(route)
        for port in (route.start, route.end):
            self.ports[port.node, port.side].pop(route.number, None)

    def places(self, request: RouteRequest, port: RimPort) -> list[Range]:
        """Return where an edge may run that begins or ends at a port."""
        seen = self._line_field(request)
        return EdgeWays(self.placed, self.field, request, seen, self.patience).places(port)

    def _line_field(self, request: RouteRequest) -> LineField:
        # A line that goes far around others takes the room of the frames of opened calls.
        is_free = all(group.is_axis for group in self.placed.figure.groups)
        ends = (request.upper, request.lower) if is_free else None
        return LineField(self.field, request.key, request.half, request.room, request.lanes, ends)

    def best(self, request: RouteRequest, old: Route | None = None) -> Route:
        """Return the best route; keep an old one that costs less."""
        limit = FAR * FAR if old is None else nextafter(self.cost(old), FAR * FAR)
        # Where no side of the ends has room: enter from above in any case.
        return self.cheaper(request, limit) or old or _direct(request)

    def _beside(self, several: Sequence[RouteRequest]) -> Iterator[Route]:
        """Yield routes found without a search: in lanes at the right of all nodes."""
        right = max(box.right for box in self.placed.nodes.values()) + 2 * APART
        busy: list[tuple[int, int]] = []  # the last row that each lane passes, and its number
        for direct in sorted(map(_direct, several), key=lambda one: one.start.row):
            start, end = direct.start, direct.end
            first, last = start.row, end.row - 1
            if first == last:
                yield direct
                continue
            is_free = busy and busy[0][0] < first
            lane = heappop(busy)[1] if is_free else len(busy)
            heappush(busy, (last, lane))
            across = LineRun(right + lane * APART, first, last)
            runs = LineRun(start.x, first, first), across, LineRun(end.x, last, last)
            yield replace(direct, runs=runs)

    def cheaper(self, request: RouteRequest, limit: float) -> Route | None:
        """Try the pairs of ports, the most promising first; None where no way costs less."""
        pairs = sorted(
            ((_least(start, end), start, end)
             for start, end in product(request.starts, request.ends)),
            key=lambda pair: pair[0],
        )  # fmt: skip
        best, lowest, seen = None, limit, self._line_field(request)
        ways = EdgeWays(self.placed, self.field, request, seen, self.patience)
        for least, start, end in pairs:
            if least >= lowest:
                break
            route = ways.between(start, end, lowest)
            if route is not None and (cost := self.cost(route, seen, lowest)) < lowest:
                best, lowest = route, cost
        return best

    # ---- cost --------------------------------------------------------------------------------

    def cost(self, route: Route, seen: LineField | None = None, limit: float = FAR * FAR) -> float:
        """Return what a route costs beside all others, or less of it if that is the limit."""
        cost = self._own_cost(route)
        return cost if cost >= limit else cost + self.trouble(route, seen, limit - cost)

    def _own_cost(self, route: Route) -> float:
        """Return what a route costs where it is the only one."""
        return route.start.cost + route.end.cost + self._shape(route)

    def trouble(
        self, route: Route, seen: LineField | None = None, limit: float = FAR * FAR
    ) -> float:
        """Return the cost that other lines add to a route, up to the limit."""
        cost = CLASH * self._clashes(route)
        if cost < limit:
            field = seen or LineField(self.field, route.key, route.half)
            for count in self._crossings(route, field):
                self.patience.left -= 1
                cost += CROSSING * count
                if cost >= limit:
                    break
        return cost

    def _shape(self, route: Route) -> float:
        cost = 0.0
        for _, a, b in route.turns():
            cost += 2 * CORNER + LENGTH * abs(a - b)
        for _, left, right, _ in route.flat():
            cost += CORNER + LENGTH * (right - left)
        return cost

    def _crossings(self, route: Route, seen: LineField) -> Iterator[int]:
        key, number = route.key, route.number
        for gap, a, b in route.turns():
            yield seen.gap(gap).crossed_by_turn(a, b)
        flat, upright = self.field.flat, self.field.upright
        sides = {(port.node, port.side) for port in (route.start, route.end)}
        for row, x in route.rows():
            for other, parts in flat[row].items() if row in flat else ():
                # Lines at one side of a node get heights at which they do not cross.
                yield self._lines(other) * any(
                    left < x < right and each != key and (port.node, port.side) not in sides
                    for left, right, port, each in parts
                    if other != number
                )
        for row, left, right, port in route.flat():
            mates = self.ports[port.node, port.side]
            for other, lines in upright[row].items():
                yield self._lines(other) * any(
                    left < x < right and each != key
                    for x, each, _, _ in lines
                    if other != number and other not in mates
                )
        for gap, x in route.gaps():
            if (lines := seen.gap(gap)).starts:
                yield lines.crossed_level(x)

    def _lines(self, number: int) -> int:
        """Return how many lines an edge has: two with its way back."""
        return 2 if self.routes[number].half else 1

    def _clashes(self, route: Route) -> int:
        count = 0
        for port in (route.start, route.end):
            count += self._port_clashes(route, port)
        for row, left, right, port in route.flat():
            count += port.head and self._is_crossed_at_head(route, row, port)
            for other, parts in self.field.flat[row].items():
                count += other != route.number and any(
                    max(left, a) < min(right, b) and (p.node, p.side) != (port.node, port.side)
                    for a, b, p, _ in parts
                )
        return count

    def _is_crossed_at_head(self, route: Route, row: int, port: RimPort) -> bool:
        """Return whether an upright line runs through the head of a level one at a node's side."""
        ends = port.x, port.x + style.ARROW_LENGTH * (1 if port.side is NodeSide.RIGHT else -1)
        least, most = min(ends), max(ends)
        return any(
            least < x + half and x - half < most
            for other, lines in self.field.upright[row].items()
            for x, _, half, _ in lines
            if other != route.number
        )

    def _port_clashes(self, route: Route, port: RimPort) -> int:
        others = [pair for n, pair in self.ports[port.node, port.side].items() if n != route.number]
        if port.side.is_level:
            lines = {_line(other, its) for its, other in others} | {_line(route, port)}
            heads = port.head or any(its.head for its, _ in others)
            half = max([route.half, *(other.half for _, other in others)])
            least = (_LEAST_HEADS if heads else _LEAST_STOP) + 2 * half
            room = side_room(self.placed, port.node) - 6.0 - 2 * half
            return len(lines) > 1 + int(max(room, 0.0) / least)
        x = _at(route, port)
        return sum(self._is_near(route, port, other, _at(other, its) - x) for its, other in others)

    def _is_near(self, route: Route, port: RimPort, other: Route, distance: float) -> bool:
        """Return whether two lines meet a top or a bottom too near to each other."""
        joins = port.side is NodeSide.BOTTOM and other.key == route.key
        return abs(distance) < PORT_APART + route.half + other.half and not joins


def _line(route: Route, port: RimPort) -> tuple[str, ...]:
    """Return the key of a line at a side of a node: lines that leave may share one."""
    return (str(route.number),) if port.head or port is route.end else route.key


def _at(route: Route, port: RimPort) -> float:
    """Return where a route's line meets the top or the bottom of a node."""
    return route.runs[0 if port is route.start else -1].x


def _has_kink(route: Route) -> bool:
    """Return whether a line steps to the side by less than two round corners need."""
    return any(0.0 < abs(a.x - b.x) < _KINK for a, b in pairwise(route.runs))


def _least(start: RimPort, end: RimPort) -> float:
    """Return what a way between two ports costs at least."""
    cost = start.cost + end.cost
    corners = start.side.is_level + end.side.is_level
    if not corners and start.x != end.x and not start.wide and not end.wide:
        corners = 2
    return cost + CORNER * corners


def _direct(request: RouteRequest) -> Route:
    start, end = request.starts[-1], request.ends[-1]
    runs = (LineRun(start.x, start.row, start.row), LineRun(end.x, start.row, end.row - 1))
    return Route(request.number, request.key, start, end, runs, request.half)
