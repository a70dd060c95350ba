"""Hairlines: a line that a bar leaves as it is continues on the bar, so that an eye can follow.

One that only passes takes no part in the collective: it ends nowhere at the bar. One of a pass in
which the bar does nothing ends at its rim, and goes on from there to where arrows leave the other.
The bar's text is placed where none is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise, product
from typing import Final

from xg.figures.draw.display import DrawnShape, Element
from xg.figures.model import style
from xg.figures.model.geometry import Box, Point, flattened, polyline, rounded

_HAIRLINE: Final = 0.45
_ALL: Final = 0.95  # of a bar's height
_SAME: Final = 0.05  # a smaller shift is rounding


def passing(bar: Box, edges: Iterable[Element]) -> Iterator[DrawnShape]:
    """Yield the hairlines on a bar, of edges that run under it from its top to its bottom."""
    for edge in edges:
        for shape in edge.parts:
            if isinstance(shape, DrawnShape) and shape.line is not None:
                points = _inside(bar, flattened(shape.path))
                if points and _height(points) > _ALL * bar.height:
                    yield DrawnShape(polyline(points), None, shape.line, _HAIRLINE, shape.dashes)


def going_on(bar: str, edges: Sequence[Element]) -> Iterator[DrawnShape]:
    """Yield the hairlines on a bar of a column, from edges without a head to those that leave it.

    They branch in the middle of the bar, as one line does.
    """
    lines = [(one, [p for p in one.parts if isinstance(p, DrawnShape)]) for one in edges]
    ending = [parts for one, parts in lines if one.wire and one.wire.head == bar]
    leaving = [parts for one, parts in lines if one.wire and one.wire.tail == bar]
    for before, after in product(ending, leaving):
        has_head = any(part.line is None for part in before)
        if not has_head and before[0].dashes == after[0].dashes:
            end = _mean([flattened(part.path)[-1] for part in before])
            start = _mean([part.path.start for part in after if part.line is not None])
            yield DrawnShape(
                rounded(_way(end, start), style.CORNER),
                line=after[0].line,
                width=_HAIRLINE,
                dashes=after[0].dashes,
            )


def free_ranges(bar: Box, lines: Iterable[DrawnShape]) -> list[tuple[float, float]]:
    """Return the parts of a bar's width where no hairline is, from left to right."""
    taken = sorted((box.left, box.right) for box in (line.path.bounds() for line in lines))
    free: list[tuple[float, float]] = []
    left = bar.left
    for start, end in taken:
        if start >= left:
            free.append((left, start))
        left = max(left, end)
    return [*free, (left, bar.right)]


def _way(end: Point, start: Point) -> tuple[Point, ...]:
    if abs(end[0] - start[0]) < _SAME:
        return end, start
    middle = (end[1] + start[1]) / 2
    return end, (end[0], middle), (start[0], middle), start


def _mean(points: Sequence[Point]) -> Point:
    xs, ys = zip(*points, strict=True)
    return sum(xs) / len(xs), sum(ys) / len(ys)


def _inside(bar: Box, points: Sequence[Point]) -> list[Point]:
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
