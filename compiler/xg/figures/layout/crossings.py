"""Crossings: a line that passes under a bar continues there as a hairline, so an eye can follow.

A line that only passes takes no part in the collective: it ends nowhere at the bar. The bar's text
is placed where none passes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Final

from xg.figures.draw.display import DrawnShape, Element
from xg.figures.model.geometry import Box, Point, flattened, polyline

_HAIRLINE: Final = 0.45
_ALL: Final = 0.95  # of a bar's height


def crossings(bar: Box, edges: Iterable[Element]) -> Iterator[DrawnShape]:
    """Yield the hairlines on a bar, of edges that run under it from its top to its bottom."""
    for edge in edges:
        for shape in edge.parts:
            if isinstance(shape, DrawnShape) and shape.line is not None:
                points = _inside(bar, flattened(shape.path))
                if points and _height(points) > _ALL * bar.height:
                    yield DrawnShape(polyline(points), None, shape.line, _HAIRLINE, shape.dashes)


def _inside(bar: Box, points: list[Point]) -> list[Point]:
    """Return the part of a line that runs between the top and the bottom of a bar."""
    inner: list[Point] = []
    for a, b in pairwise(points):
        if max(a[1], b[1]) > bar.top and min(a[1], b[1]) < bar.bottom:
            ends = [_at(a, b, y) for y in (min(max(p[1], bar.top), bar.bottom) for p in (a, b))]
            inner += [point for point in ends if bar.left < point[0] < bar.right]
    return inner


def _at(a: Point, b: Point, y: float) -> Point:
    """Return the point of a line at a height; of a level line its beginning."""
    if a[1] == b[1]:
        return a
    return a[0] + (b[0] - a[0]) * (y - a[1]) / (b[1] - a[1]), y


def _height(points: list[Point]) -> float:
    return max(y for _, y in points) - min(y for _, y in points)
