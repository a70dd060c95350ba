"""Routes: the path of every edge between boxes that stand where they are.

Edges keep to straight lines with round corners: down a column, out of a node's side and down into
the next column, down a column and into a node's side, around in a lane. Where a box would be in the
way, the layout engine's curve is taken instead.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import hypot, sqrt
from typing import Final

from xg.backends.graphviz import style
from xg.backends.graphviz.figure import NodeKind
from xg.backends.graphviz.geometry import Path, Point, clipped, polyline, rounded
from xg.backends.graphviz.obstacles import Obstacles
from xg.backends.graphviz.placed import PlacedFigure
from xg.backends.graphviz.rails import ALIGNED, Flank, Rail, rails, vertical
from xg.backends.graphviz.structure import Place

_PAIR_INSIDE: Final = 0.55  # of a glyph's width
_PAIR_SIDES: Final = {Place.PAIRED: -1, Place.BACK: 1}


def routes(placed: PlacedFigure) -> Mapping[int, Path]:
    """Route every edge but those in lanes, from the rim of its tail to the rim of its head."""
    rail_of = rails(placed)
    obstacles = Obstacles(placed)
    shift = _pair_shift(placed)
    return {
        number: _pair(placed, edge.tail, edge.head, shift * _PAIR_SIDES[place])
        if place in _PAIR_SIDES
        else _route(placed, number, place, rail_of.get(number), obstacles)
        for number, (edge, place) in enumerate(
            zip(placed.figure.edges, placed.facts.places, strict=True)
        )
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


def _pair(placed: PlacedFigure, tail: str, head: str, shift: float) -> Path:
    """Return a vertical line beside the middle, from rim to rim."""
    up = placed.nodes[tail].top > placed.nodes[head].top
    x = placed.nodes[tail].center[0] + shift
    start = x, _rim_above(placed, tail, shift, -1 if up else 1)
    return polyline((start, (x, _rim_above(placed, head, shift, 1 if up else -1))))


def _rim_above(placed: PlacedFigure, node_id: str, shift: float, side: int) -> float:
    """Return where a vertical line beside a node's middle meets its upper (-1) or lower rim."""
    box = placed.nodes[node_id]
    reach = box.height / 2
    if style.NODE_STYLES[placed.facts.kinds[node_id]].outline is style.Outline.CIRCLE:
        reach = sqrt(max(reach**2 - shift**2, 0.0))
    return box.center[1] + side * reach


def _pair_shift(placed: PlacedFigure) -> float:
    """Return how far pairs stand off the middle: alike in the whole figure, inside every glyph."""
    widths = [
        placed.nodes[node].width
        for edge, place in zip(placed.figure.edges, placed.facts.places, strict=True)
        if place is Place.PAIRED
        for node in (edge.tail, edge.head)
        if placed.facts.kinds[node] is not NodeKind.TENSOR
    ]
    return min([style.PAIR_GAP, *(_PAIR_INSIDE * width for width in widths)]) / 2


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
        inside_tail, inside_head = _inside(placed, edge.tail), _inside(placed, edge.head)
        return clipped(placed.curves[number], inside_tail, inside_head)
    middle = (tail.bottom + head.top) / 2
    bend = ((tail.center[0], tail.bottom), (tail.center[0], middle), (x, middle), (x, head.top))
    return rounded(bend, style.CORNER)


def _inside(placed: PlacedFigure, node_id: str) -> Callable[[Point], bool]:
    """Return a test for points that a node's glyph covers."""
    box = placed.nodes[node_id]
    x, y = box.center
    if style.NODE_STYLES[placed.facts.kinds[node_id]].outline is style.Outline.CIRCLE:
        return lambda point: hypot(point[0] - x, point[1] - y) < box.width / 2
    return lambda point: abs(point[0] - x) < box.width / 2 and abs(point[1] - y) < box.height / 2
