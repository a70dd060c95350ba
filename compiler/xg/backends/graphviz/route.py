"""Routes: the path of every edge between boxes that stand where they are.

Edges keep to straight lines with round corners: down a column, out of a node's side and down into
the next column, down a column and into a node's side, around in a lane. Where a box would be in the
way, the layout engine's curve is taken instead.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from math import sqrt
from typing import Final

from xg.backends.graphviz import style
from xg.backends.graphviz.figure import NodeKind
from xg.backends.graphviz.geometry import Box, Path, Point, polyline, rounded
from xg.backends.graphviz.placed import PlacedFigure
from xg.backends.graphviz.rails import Flank, Rail, rails, vertical
from xg.backends.graphviz.structure import Place

_ALIGNED: Final = 1.5  # a smaller shift between two ends is rounding, not a bend
_CLEARANCE: Final = 2.0


def routes(placed: PlacedFigure) -> Mapping[int, Path]:
    """Route every edge but those in lanes, from the rim of its tail to the rim of its head."""
    rail_of = rails(placed)
    return {
        number: _route(placed, number, place, rail_of.get(number))
        for number, place in enumerate(placed.facts.places)
        if place is not Place.LANE
    }


def rim(placed: PlacedFigure, node_id: str, flank: Flank, offset: float = 0.0) -> Point:
    """Return the point at a node's side where a horizontal line meets it."""
    box = placed.nodes[node_id]
    kind = placed.figure.node(node_id).kind
    x, y = box.center
    reach = box.width / 2
    if style.NODE_STYLES[kind].outline is style.Outline.CIRCLE:
        reach = sqrt(max(reach**2 - offset**2, 0.0))
    if kind in (NodeKind.TENSOR, NodeKind.SAVED):
        reach += style.TEXT_GAP
    return x + flank.value * reach, y + offset


def blocked(points: Sequence[Point], boxes: Iterable[Box]) -> bool:
    """Tell whether a line of horizontal and vertical parts comes too near to a box."""
    parts = [
        Box(min(a[0], b[0]), min(a[1], b[1]), max(a[0], b[0]), max(a[1], b[1])).grown(_CLEARANCE)
        for a, b in pairwise(points)
    ]
    return any(part.overlaps(box) for box in boxes for part in parts)


def obstacles(placed: PlacedFigure, number: int) -> list[Box]:
    """Return the boxes that an edge must keep clear of: all but its ends and its own label."""
    edge = placed.figure.edges[number]
    boxes = [box for node, box in placed.nodes.items() if node not in (edge.tail, edge.head)]
    boxes += (
        Box(box.left + _CLEARANCE, box.top, box.right, box.bottom)
        for other, box in placed.labels.items()
        if other != number
    )
    return boxes


def _route(placed: PlacedFigure, number: int, place: Place, rail: Rail | None) -> Path:
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
            if number not in placed.curves or not blocked(points, obstacles(placed, number)):
                return rounded(points, style.CORNER)
        case _:
            pass
    return _straight_or_curved(placed, number)


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


def _straight_or_curved(placed: PlacedFigure, number: int) -> Path:
    edge = placed.figure.edges[number]
    tail, head = placed.nodes[edge.tail], placed.nodes[edge.head]
    x = head.center[0]
    straight = polyline(((x, tail.bottom), (x, head.top)))
    aligned = abs(tail.center[0] - x) < _ALIGNED
    if aligned and not blocked(((x, tail.bottom), (x, head.top)), obstacles(placed, number)):
        return straight
    if number in placed.curves:
        return placed.curves[number]
    middle = (tail.bottom + head.top) / 2
    bend = ((tail.center[0], tail.bottom), (tail.center[0], middle), (x, middle), (x, head.top))
    return rounded(bend, style.CORNER)
