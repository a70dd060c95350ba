"""Routes: the path of every edge between boxes that stand where they are.

Edges keep to straight lines with round corners: down a column, out of a node's side and down into
the next column, down a column and into a node's side, around in a lane. Where a box would be in the
way, the layout engine's curve is taken instead.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import hypot, sqrt
from typing import Final

from xg.figures.layout.obstacles import Obstacles
from xg.figures.layout.placed import PlacedFigure
from xg.figures.layout.rails import ALIGNED, Flank, Rail, rails, vertical
from xg.figures.model import style
from xg.figures.model.figure import NodeKind
from xg.figures.model.geometry import Path, Point, clipped, flattened, parallel, polyline, rounded
from xg.figures.model.structure import Place

_PAIR_INSIDE: Final = 0.55  # of a glyph's width


def routes(placed: PlacedFigure) -> Mapping[int, Path]:
    """Route every edge but those in lanes, from the rim of its tail to the rim of its head."""
    router = _Router(placed, rails(placed), Obstacles(placed), _pair_shift(placed))
    return {
        number: router.route(number, place)
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


@dataclass(frozen=True, slots=True)
class _Router:
    """What routes are drawn with; `forked` are tails whose line already has a fork below them."""

    placed: PlacedFigure
    rails: Mapping[int, Rail]
    obstacles: Obstacles
    shift: float
    forked: set[str] = field(default_factory=set[str])

    def route(self, number: int, place: Place) -> Path:
        edge = self.placed.figure.edges[number]
        match place:
            case Place.FROM_LEFT:
                return _flat(self.placed, edge.tail, edge.head, Flank.RIGHT)
            case Place.FROM_RIGHT:
                return _flat(self.placed, edge.tail, edge.head, Flank.LEFT)
            case Place.PAIRED:
                return _pair(self.placed, number, edge.tail, edge.head, -self.shift)
            case Place.BACK:
                return _pair(self.placed, number, edge.tail, edge.head, self.shift)
            case _:
                return self._bent(number, place) or self._straight_or_curved(number)

    def _bent(self, number: int, place: Place) -> Path | None:
        """Return the first way around corners that nothing blocks."""
        edge = self.placed.figure.edges[number]
        rail = self.rails.get(number)
        ways: list[list[Point]] = []
        if rail is not None:
            ways.append(_around(self.placed, number, place, rail))
        is_bar = edge.tail in self.placed.figure.levels
        if place is Place.BRANCH and (is_bar or edge.tail not in self.forked):
            ways.append(_fork(self.placed, number))
        if place is Place.AROUND:
            ways += (_detour(self.placed, number, flank) for flank in Flank)
        if rail is not None and number not in self.placed.curves:
            return rounded(ways[0], style.CORNER)
        for place_in_list, way in enumerate(ways):
            if way and not self.obstacles.block(way, (edge.tail, edge.head, number)):
                if place is Place.BRANCH and (rail is None or place_in_list > 0):
                    self.forked.add(edge.tail)
                return rounded(way, style.CORNER)
        return None

    def _straight_or_curved(self, number: int) -> Path:
        placed = self.placed
        edge = placed.figure.edges[number]
        tail, head = placed.nodes[edge.tail], placed.nodes[edge.head]
        x = head.center[0]
        straight = ((x, tail.bottom), (x, head.top))
        aligned = abs(tail.center[0] - x) < ALIGNED
        if aligned and not self.obstacles.block(straight, (edge.tail, edge.head, number)):
            return polyline(straight)
        if number in placed.curves:
            inside_tail, inside_head = _inside(placed, edge.tail), _inside(placed, edge.head)
            return clipped(placed.curves[number], inside_tail, inside_head)
        middle = (tail.bottom + head.top) / 2
        bend = ((tail.center[0], tail.bottom), (tail.center[0], middle), (x, middle), (x, head.top))
        return rounded(bend, style.CORNER)


def _flat(placed: PlacedFigure, tail: str, head: str, leaving: Flank) -> Path:
    entering = Flank.LEFT if leaving is Flank.RIGHT else Flank.RIGHT
    end = rim(placed, head, entering)
    return polyline(((rim(placed, tail, leaving)[0], end[1]), end))


def _pair(placed: PlacedFigure, number: int, tail: str, head: str, shift: float) -> Path:
    """Return a vertical line beside the middle, from rim to rim; beside a curve, if it bends."""
    one, other = placed.nodes[tail], placed.nodes[head]
    up = one.top > other.top
    if abs(one.center[0] - other.center[0]) > ALIGNED:
        return _beside_curve(placed, number, tail, head, shift)
    x = one.center[0] + shift
    start = x, _rim_above(placed, tail, shift, -1 if up else 1)
    return polyline((start, (x, _rim_above(placed, head, shift, 1 if up else -1))))


def _beside_curve(placed: PlacedFigure, number: int, tail: str, head: str, shift: float) -> Path:
    """Run at a distance beside the curve of the pair, which leads downwards."""
    edges = placed.figure.edges
    down = next((n for n, e in enumerate(edges) if (e.tail, e.head) == (head, tail)), number)
    down = number if number in placed.curves else down
    if down not in placed.curves:
        return polyline((placed.nodes[tail].center, placed.nodes[head].center))
    # Right of the middle on the page is left of a line that leads downwards.
    beside = flattened(parallel(flattened(placed.curves[down]), -shift))
    points = beside if down == number else beside[::-1]
    return clipped(polyline(points), _inside(placed, tail), _inside(placed, head))


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


def _fork(placed: PlacedFigure, number: int) -> list[Point]:
    """Leave the line below the tail, above its label, and enter the head from the top."""
    edge = placed.figure.edges[number]
    tail, x = placed.nodes[edge.tail], vertical(placed, number)
    below = tail.bottom + style.FORK_DROP
    if abs(x - tail.center[0]) < 2 * style.CORNER:
        return []
    return [(tail.center[0], below), (x, below), (x, placed.nodes[edge.head].top)]


def _detour(placed: PlacedFigure, number: int, flank: Flank) -> list[Point]:
    """Leave the tail at a side, run down beside both ends, enter the head at the same side."""
    edge = placed.figure.edges[number]
    start, end = rim(placed, edge.tail, flank), rim(placed, edge.head, flank)
    reach = max(flank.value * start[0], flank.value * end[0]) + 2 * style.CORNER
    x = vertical(placed, number)
    if number not in placed.labels or flank.value * x < reach:
        x = flank.value * reach
    return [start, (x, start[1]), (x, end[1]), end]


def _inside(placed: PlacedFigure, node_id: str) -> Callable[[Point], bool]:
    """Return a test for points that a node's glyph covers."""
    box = placed.nodes[node_id]
    x, y = box.center
    if style.NODE_STYLES[placed.facts.kinds[node_id]].outline is style.Outline.CIRCLE:
        return lambda point: hypot(point[0] - x, point[1] - y) < box.width / 2
    return lambda point: abs(point[0] - x) < box.width / 2 and abs(point[1] - y) < box.height / 2
