"""Routes: the path of every edge between boxes that stand where they are.

Edges keep to straight lines with round corners: down a column, out of a node's side and down into
the next column, down a column and into a node's side, around in a lane. Where a box would be in the
way, the layout engine's curve is taken instead.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import sqrt

from xg.backends.graphviz import style
from xg.backends.graphviz.figure import NodeKind
from xg.backends.graphviz.geometry import Path, Point, polyline, rounded
from xg.backends.graphviz.obstacles import Obstacles
from xg.backends.graphviz.placed import PlacedFigure
from xg.backends.graphviz.rails import ALIGNED, Flank, Rail, rails, vertical
from xg.backends.graphviz.structure import Place


def routes(placed: PlacedFigure) -> Mapping[int, Path]:
    """Route every edge but those in lanes, from the rim of its tail to the rim of its head."""
    rail_of = rails(placed)
    obstacles = Obstacles(placed)
    return {
        number: _route(placed, number, place, rail_of.get(number), obstacles)
        for number, place in enumerate(placed.facts.places)
        if place is not Place.LANE
    }


def rim(placed: PlacedFigure, node_id: str, flank: Flank, offset: float = 0.0) -> Point:
    """Return the point at a node's side where a horizontal line meets it."""
    box = placed.nodes[node_id]
    kind = placed.facts.kinds[node_id]
    x, y = box.center
    reach = box.width / 2
    if style.NODE_STYLES[kind].outline is style.Outline.CIRCLE:
        reach = sqrt(max(reach**2 - offset**2, 0.0))
    if kind in (NodeKind.TENSOR, NodeKind.SAVED):
        reach += style.TEXT_GAP
    return x + flank.value * reach, y + offset


def _route(
    placed: PlacedFigure, number: int, place: Place, rail: Rail | None, obstacles: Obstacles
) -> Path:
    edge = placed.figure.edges[number]
    match place:
        case Place.FROM_LEFT:
            return _flat(placed, edge.tail, edge.head, Flank.RIGHT)
        case Place.FROM_RIGHT:
            return _flat(placed, edge.tail, edge.head, Flank.LEFT)
        case Place.PAIRED:
            return _pair(placed, edge.tail, edge.head, -1)
        case Place.BACK:
            return _pair(placed, edge.tail, edge.head, 1)
        case Place.BRANCH | Place.SIDE if rail is not None:
            points = _around(placed, number, place, rail)
            own = (edge.tail, edge.head, number)
            if number not in placed.curves or not obstacles.block(points, own):
                return rounded(points, style.CORNER)
        case _:
            pass
    return _straight_or_curved(placed, number, obstacles)


def _flat(placed: PlacedFigure, tail: str, head: str, leaving: Flank) -> Path:
    entering = Flank.LEFT if leaving is Flank.RIGHT else Flank.RIGHT
    end = rim(placed, head, entering)
    return polyline(((rim(placed, tail, leaving)[0], end[1]), end))


def _pair(placed: PlacedFigure, tail: str, head: str, side: int) -> Path:
    start, end = placed.nodes[tail], placed.nodes[head]
    x = start.center[0] + side * style.PAIR_GAP / 2
    if start.top > end.top:
        return polyline(((x, start.top), (x, end.bottom)))
    return polyline(((x, start.bottom), (x, end.top)))


def _around(placed: PlacedFigure, number: int, place: Place, rail: Rail) -> list[Point]:
    edge = placed.figure.edges[number]
    x = vertical(placed, number)
    if place is Place.BRANCH:
        start = rim(placed, edge.tail, rail.flank, rail.offset)
        if rail.joins:
            start = x - 2 * rail.flank.value * style.CORNER, start[1]
        return [start, (x, start[1]), (x, placed.nodes[edge.head].top)]
    end = rim(placed, edge.head, rail.flank, rail.offset)
    return [(x, placed.nodes[edge.tail].bottom), (x, end[1]), end]


def _straight_or_curved(placed: PlacedFigure, number: int, obstacles: Obstacles) -> Path:
    edge = placed.figure.edges[number]
    tail, head = placed.nodes[edge.tail], placed.nodes[edge.head]
    x = head.center[0]
    straight = ((x, tail.bottom), (x, head.top))
    aligned = abs(tail.center[0] - x) < ALIGNED
    if aligned and not obstacles.block(straight, (edge.tail, edge.head, number)):
        return polyline(straight)
    if number in placed.curves:
        return placed.curves[number]
    middle = (tail.bottom + head.top) / 2
    bend = ((tail.center[0], tail.bottom), (tail.center[0], middle), (x, middle), (x, head.top))
    return rounded(bend, style.CORNER)
