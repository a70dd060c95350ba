"""Sliding labels: where a line bends only because its label is elsewhere, the label moves to it.

The layout engine knows nothing of the sides by which lines enter, so a label may be a little beside
the way that its line would take. It slides in its row, to a place where nothing else is; where the
label of another line of its node is in its way, both do.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from typing import Final

from xg.figures.layout.choose_routes import Router
from xg.figures.layout.field import APART, CLEAR, FAR, Range, Route, RoutingField
from xg.figures.layout.fill_field import blocked, label_blocks
from xg.figures.layout.request import RouteRequest, bars_of
from xg.figures.model.geometry import Box
from xg.figures.model.structure import EdgePlace

_INWARD: Final = 4.0  # how far off the end of free room a line keeps, if it can
_ROUNDING: Final = 1e-6
_LEAST: Final = 5.0  # that a slide must save: half a corner
_TRIED_AT_MOST: Final = 256  # places of labels in one layout: each is a search for a way


def slide_labels(router: Router, route_requests: Sequence[RouteRequest]) -> dict[int, Box]:
    """Take up the edges again that turn beside their labels; return all labels, some elsewhere.

    Those of a column stay: whatever bends it, it is not its label. So do those at bars.
    """
    sheet = _SlidingLabels(router)
    bars = bars_of(router.placed)
    aside = (one for one in route_requests if one.place is not EdgePlace.DOWN)
    labelled = [one for one in aside if one.via and bars.isdisjoint((one.upper, one.lower))]
    for request in labelled:
        if sheet.turns(request) and not sheet.improve(request):
            for other in labelled:
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
        lowest, trouble = self._cost(old) - _LEAST, self._trouble(old)
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
            room = blocked(self.router.placed, request.number, moved)
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
    """Return whether nothing is in a part of a row: no box, no line and no lane of others."""
    low, high = room[0] - APART, room[1] + APART
    lines = [x for some in field.upright[row].values() for x, *_ in some]
    level = [(a, b) for some in field.flat[row].values() for a, b, *_ in some]
    framed = [one for lane, one in field.rows[row].framed.items() if lane not in lanes]
    boxes = (*field.rows[row].taken, *level, *framed)
    return not any(a < high and low < b for a, b in boxes) and not any(
        low < x < high for x in lines
    )
