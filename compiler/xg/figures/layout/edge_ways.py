"""The ways of one edge from port to port; searches that begin in the same way are one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field as dataclass_field

from xg.diagnostics.lazy_dataclass import dataclass
from xg.figures.layout.field import CLEAR, FAR, HEAD, Range, Route, RoutingField
from xg.figures.layout.line_field import LineField, free, free_at_bar
from xg.figures.layout.placed import PlacedFigure
from xg.figures.layout.ports import NodeSide, RimPort
from xg.figures.layout.request import RouteRequest
from xg.figures.layout.route_bound import ROUNDING, RouteBound
from xg.figures.layout.route_costs import CORNER, LENGTH
from xg.figures.layout.route_search import Search
from xg.figures.model import style


@dataclass()
class EdgeWays:
    """The ways of a requested edge on a field with other lines, and what was found of them."""

    placed: PlacedFigure
    field: RoutingField
    request: RouteRequest
    seen: LineField
    searches: dict[tuple[int, float], Search] = dataclass_field(
        default_factory=dict[tuple[int, float], Search]
    )
    ranges: dict[int, list[Range]] = dataclass_field(default_factory=dict[int, list[Range]])
    bound: RouteBound | None = None

    def between(self, start: RimPort, end: RimPort, lowest: float) -> Route | None:
        """Return the best way from port to port, None where it costs more."""
        request = self.request
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
            search = Search(self.seen, starts, start.row, last, request.via, near, most, bound)
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
            low, high = self._beside(port)
            key, half, lanes = self.request.key, self.request.half, self.request.lanes
            if port.at_bar:
                here = free_at_bar(self.field, port.row, key, half)
            else:
                here = free(self.field, port.row, key, half, 0.0, lanes)
            within = ((max(left, low), min(right, high)) for left, right in here)
            self.ranges[id(port)] = [(a, b) for a, b in within if a <= b]
        return self.ranges[id(port)]

    def _beside(self, port: RimPort) -> Range:
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
