"""Routing a placed figure: rows moved apart where lines need room, and the path of every edge."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from math import dist, sqrt
from typing import Final

from xg.diagnostics.lazy_dataclass import dataclass
from xg.figures.layout.channels import Channels, channels, stops
from xg.figures.layout.choose_routes import Router
from xg.figures.layout.field import Route, RoutingField
from xg.figures.layout.fill_field import field_of
from xg.figures.layout.lanes import labelled, lanes_beyond
from xg.figures.layout.placed import PlacedFigure
from xg.figures.layout.ports import NodeSide, RimPort
from xg.figures.layout.request import FLAT, is_round, pair_shift, side_room, text_gap
from xg.figures.layout.slide_labels import slide_labels
from xg.figures.model import style
from xg.figures.model.figure import EdgeStyle
from xg.figures.model.geometry import Box, DrawnPath, Point, backward, polyline, rounded
from xg.figures.model.structure import EdgePlace

_SAME: Final = 0.01
_HEADS: Final = style.ARROW_WIDTH + 0.5  # between the tips of two that do not touch
_STUB: Final = 1.5  # of a line without a head, where it leaves a node
_STRAIGHT: Final = style.ARROW_LENGTH + 0.5  # of a line, at an end with a head


def routed(placed: PlacedFigure) -> PlacedFigure:
    """Return the figure with a path for every edge; its rows may have moved down."""
    done = _routed(placed, {})
    found = labelled(done)
    if found.crowded:
        done = _routed(placed, found.crowded)
        found = labelled(done)
    return _outside(done, lanes_beyond(done, found)) if placed.facts.twins else done


def _routed(placed: PlacedFigure, rooms: Mapping[int, float]) -> PlacedFigure:
    field = field_of(placed)
    router = Router(placed, field, rooms)
    routes = router.run()
    placed = replace(placed, labels=slide_labels(router, router.requests))
    levels = {field.row(placed.nodes[bar]) for bar in placed.figure.levels}
    channel_levels = channels(field, routes, levels)
    moved = _moved(placed, field, channel_levels)
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
        if place in FLAT:
            half = shift if number in twins else 0.0
            paths[number] = _flat(moved, number, place, half)
            if number in twins:
                paths[twins[number]] = backward(_flat(moved, number, place, -half))
    return replace(moved, paths=paths, cramped=router.cramped())


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


def _moved(placed: PlacedFigure, field: RoutingField, found: Channels) -> PlacedFigure:
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
            return self._beside(box, port, offset, half)
        x = route.runs[0 if is_start else -1].x + shift
        sign = 1 if port.side is NodeSide.BOTTOM else -1
        reach = box.height / 2
        if is_round(self.placed, port.node):
            reach = sqrt(max(reach**2 - (abs(x - box.center[0]) + half) ** 2, 0.0))
        reach += text_gap(self.placed, port.node, port.side)
        return x, box.center[1] + sign * reach

    def _beside(self, box: Box, port: RimPort, offset: float, half: float) -> Point:
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
    """Return the line from a tensor into the side of the node that it is beside.

    Of two lines one runs `half` at the right-hand side of the way to the node.
    """
    edge = placed.figure.edges[number]
    tail, head = placed.nodes[edge.tail], placed.nodes[edge.head]
    sign = 1 if place is EdgePlace.FROM_LEFT else -1
    y = head.center[1] + sign * half
    reach = head.width / 2
    if is_round(placed, edge.head):
        reach = sqrt(max(reach**2 - half**2, 0.0))
    gap = text_gap(placed, edge.tail, NodeSide.RIGHT if sign > 0 else NodeSide.LEFT)
    start = tail.center[0] + sign * (tail.width / 2 + gap)
    return polyline(((start, y), (head.center[0] - sign * reach, y)))
