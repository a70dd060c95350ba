"""Routing a placed figure: rows moved apart where lines need room, and the path of every edge."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import sqrt
from typing import Final

from xg.diagnostics.lazy_dataclass import dataclass
from xg.figures.layout.channels import Channels, channels, stops
from xg.figures.layout.field import Key, Route, RoutingField
from xg.figures.layout.measure import node_size
from xg.figures.layout.placed import PlacedFigure
from xg.figures.layout.ports import NodeSide, RimPort
from xg.figures.layout.request import FLAT, ends_of, is_round, is_text
from xg.figures.layout.router import Router, field_of
from xg.figures.model import style
from xg.figures.model.geometry import Box, DrawnPath, Point, bounding_box, polyline, rounded
from xg.figures.model.structure import EdgePlace

_BELOW_CAPITALS: Final = 1.0  # text reaches less far above its middle than below
_SAME: Final = 0.01
_FLOOR: Final = 26.0  # between the columns and a bar under them


def routed(placed: PlacedFigure) -> PlacedFigure:
    """Return the figure with a path for every edge; its rows may have moved down."""
    placed = _with_floor(placed)
    field = field_of(placed)
    routes = Router(placed, field).run()
    found = channels(field, routes)
    moved = _moved(placed, field, found)
    heights = {node: box.height for node, box in placed.nodes.items()}
    sheet = _RouteContext(moved, found, stops(routes, heights))
    points = {number: sheet.points(route) for number, route in routes.items()}
    joined = _join(points, routes, placed)
    paths = {
        number: rounded(some if _is_down(placed, number) else some[::-1], style.CORNER)
        for number, some in points.items()
    }
    for number, place in enumerate(placed.facts.places):
        if place in FLAT:
            paths[number] = _flat(moved, number, place)
    return replace(moved, paths=paths, joined=joined)


def _with_floor(placed: PlacedFigure) -> PlacedFigure:
    """Put the bars that rails lead to under everything else."""
    if not placed.figure.floor:
        return placed
    around = bounding_box(placed.nodes.values())
    nodes, top = dict(placed.nodes), around.bottom + _FLOOR
    for bar in placed.figure.floor:
        height = node_size(bar).height
        nodes[bar.id] = Box(around.left, top, around.right, top + height)
        top += height + _FLOOR / 2
    return replace(placed, nodes=nodes)


def _is_down(placed: PlacedFigure, number: int) -> bool:
    return ends_of(placed, number)[0] == placed.figure.edges[number].tail


def _join(
    points: dict[int, list[Point]], routes: Mapping[int, Route], placed: PlacedFigure
) -> frozenset[int]:
    """Let rails that lead to one place on a bar end where they meet the longest; return these."""
    trunks: dict[tuple[Key, float], list[int]] = defaultdict(list)
    for number, route in routes.items():
        if placed.facts.places[number] is EdgePlace.RAIL:
            trunks[route.key, route.runs[-1].x].append(number)
    for joined in trunks.values():
        joined.sort(key=lambda number: points[number][-2][1])
        for number in joined[1:]:
            points[number].pop()
    return frozenset(number for joined in trunks.values() for number in joined[1:])


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

    def points(self, route: Route) -> list[Point]:
        """Return the corners of a route, from its upper end to its lower one."""
        points = [self._rim(route, route.start, is_start=True)]
        for turn, (_, a, b) in enumerate(route.turns()):
            y = self.found.heights[route.number, turn]
            points += [(a, y), (b, y)]
        end = self._rim(route, route.end, is_start=False)
        if route.start.side.is_level:
            points.insert(1, (route.runs[0].x, points[0][1]))
        if route.end.side.is_level:
            points.append((route.runs[-1].x, end[1]))
        return _corners([*points, end])

    def _rim(self, route: Route, port: RimPort, *, is_start: bool) -> Point:
        """Return where a line meets the rim of a node."""
        box = self.placed.nodes[port.node]
        if port.side.is_level:
            return self._beside(box, port, self.offsets[route.number, is_start])
        x = route.runs[0 if is_start else -1].x
        sign = 1 if port.side is NodeSide.BOTTOM else -1
        reach = box.height / 2
        if is_round(self.placed, port.node):
            reach = sqrt(max(reach**2 - (x - box.center[0]) ** 2, 0.0))
        elif is_text(self.placed, port.node) and port.side is NodeSide.TOP:
            reach -= _BELOW_CAPITALS
        return x, box.center[1] + sign * reach

    def _beside(self, box: Box, port: RimPort, offset: float) -> Point:
        reach = box.width / 2
        if is_round(self.placed, port.node):
            reach = sqrt(max(reach**2 - offset**2, 0.0))
        elif is_text(self.placed, port.node):
            reach += style.TEXT_GAP
        return box.center[0] + port.side.sign * reach, box.center[1] + offset


def _corners(points: Sequence[Point]) -> list[Point]:
    """Return the two ends and the corners: no point twice, none on a straight line."""
    found: list[Point] = []
    for point in points:
        if found and abs(point[0] - found[-1][0]) + abs(point[1] - found[-1][1]) < _SAME:
            continue
        if len(found) > 1 and any(
            abs(found[-2][axis] - found[-1][axis]) < _SAME
            and abs(found[-1][axis] - point[axis]) < _SAME
            for axis in (0, 1)
        ):
            found.pop()
        found.append(point)
    return found


def _flat(placed: PlacedFigure, number: int, place: EdgePlace) -> DrawnPath:
    """Return the line from a tensor into the side of the node that it is beside."""
    edge = placed.figure.edges[number]
    tail, head = placed.nodes[edge.tail], placed.nodes[edge.head]
    sign = 1 if place is EdgePlace.FROM_LEFT else -1
    y = head.center[1]
    start = tail.center[0] + sign * (tail.width / 2 + style.TEXT_GAP)
    return polyline(((start, y), (head.center[0] - sign * head.width / 2, y)))
