"""Plane geometry of figures: boxes and paths, in points, y growing downwards."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import pairwise
from math import hypot
from typing import Final

from xg.diagnostics.lazy_dataclass import dataclass

Point = tuple[float, float]
_QUARTER: Final = 0.5523  # control distance of a quarter circle of radius 1


@dataclass(frozen=True, slots=True)
class Box:
    """An axis-parallel rectangle."""

    left: float
    top: float
    right: float
    bottom: float

    @classmethod
    def around(cls, center: Point, width: float, height: float) -> Box:
        """Return the box of that size around a point."""
        x, y = center
        return cls(x - width / 2, y - height / 2, x + width / 2, y + height / 2)

    @property
    def center(self) -> Point:
        """Return the middle of the box."""
        return (self.left + self.right) / 2, (self.top + self.bottom) / 2

    @property
    def width(self) -> float:
        """Return the horizontal extent."""
        return self.right - self.left

    @property
    def height(self) -> float:
        """Return the vertical extent."""
        return self.bottom - self.top

    def grown(self, by: float) -> Box:
        """Return the box with every side moved outwards."""
        return Box(self.left - by, self.top - by, self.right + by, self.bottom + by)

    def moved(self, dx: float, dy: float) -> Box:
        """Return the box shifted."""
        return Box(self.left + dx, self.top + dy, self.right + dx, self.bottom + dy)

    def turned(self) -> Box:
        """Return the box with x and y exchanged."""
        return Box(self.top, self.left, self.bottom, self.right)

    def overlaps(self, other: Box) -> bool:
        """Return whether the two share more than an edge."""
        return (
            self.left < other.right
            and other.left < self.right
            and self.top < other.bottom
            and other.top < self.bottom
        )


def bounding_box(boxes: Iterable[Box]) -> Box:
    """Return the smallest box around all; there is at least one."""
    lefts, tops, rights, bottoms = zip(
        *((b.left, b.top, b.right, b.bottom) for b in boxes), strict=True
    )
    return Box(min(lefts), min(tops), max(rights), max(bottoms))


@dataclass(frozen=True, slots=True)
class Curve:
    """A cubic Bézier segment, from the current point; a straight line has no controls."""

    end: Point
    controls: tuple[Point, Point] | None = None


@dataclass(frozen=True, slots=True)
class DrawnPath:
    """A start and segments, open or closed."""

    start: Point
    segments: tuple[Curve, ...]
    closed: bool = False

    @property
    def end(self) -> Point:
        """Return where the path ends."""
        return self.segments[-1].end if self.segments else self.start

    def points(self) -> Iterable[Point]:
        """Yield every point that the path is made of, controls included: its hull."""
        yield self.start
        for segment in self.segments:
            yield from segment.controls or ()
            yield segment.end

    def bounds(self) -> Box:
        """Return a box that holds the path."""
        xs, ys = zip(*self.points(), strict=True)
        return Box(min(xs), min(ys), max(xs), max(ys))


def turned(path: DrawnPath) -> DrawnPath:
    """Return a path with x and y exchanged."""

    def flip(point: Point) -> Point:
        return point[1], point[0]

    segments = (
        Curve(flip(one.end), one.controls and (flip(one.controls[0]), flip(one.controls[1])))
        for one in path.segments
    )
    return DrawnPath(flip(path.start), tuple(segments), path.closed)


def polyline(points: Sequence[Point], *, closed: bool = False) -> DrawnPath:
    """Return straight lines through the points."""
    return DrawnPath(points[0], tuple(Curve(point) for point in points[1:]), closed)


def bezier(points: Sequence[Point]) -> DrawnPath:
    """Return the piecewise Bézier curve that Graphviz writes: a start, then triples."""
    triples = zip(points[1::3], points[2::3], points[3::3], strict=True)
    return DrawnPath(
        points[0], tuple(Curve(end, (first, second)) for first, second, end in triples)
    )


def rounded(
    points: Sequence[Point], radius: float, straight: tuple[float, float] = (0.0, 0.0)
) -> DrawnPath:
    """Return lines through the points with round corners, smaller where a line is short.

    At the start and at the end so much is `straight`: an arrow's head.
    """
    segments: list[Curve] = []
    lengths = [_distance(a, b) for a, b in pairwise(points)]
    room = [length / 2 for length in lengths]
    for end, head in zip((0, -1), straight, strict=True) if len(lengths) > 1 else ():
        room[end] = max(lengths[end] - head, lengths[end] / 4)
    for place, (before, corner, after) in enumerate(
        zip(points, points[1:], points[2:], strict=False)
    ):
        reach = min(radius, room[place], room[place + 1])
        enter, leave = _towards(corner, before, reach), _towards(corner, after, reach)
        rest = reach * (1 - _QUARTER)
        controls = (_towards(corner, before, rest), _towards(corner, after, rest))
        segments += [Curve(enter), Curve(leave, controls)]
    segments.append(Curve(points[-1]))
    return DrawnPath(points[0], tuple(segments))


def backward(path: DrawnPath) -> DrawnPath:
    """Return a path from its end to its start."""
    starts = [path.start, *(segment.end for segment in path.segments)]
    segments = (
        Curve(start, segment.controls and (segment.controls[1], segment.controls[0]))
        for start, segment in zip(reversed(starts[:-1]), reversed(path.segments), strict=True)
    )
    return DrawnPath(path.end, tuple(segments), path.closed)


def rectangle(box: Box, radius: float = 0.0) -> DrawnPath:
    """Return the outline of a box, its corners rounded by `radius`."""
    if radius <= 0:
        corners = ((box.left, box.top), (box.right, box.top),
                   (box.right, box.bottom), (box.left, box.bottom))  # fmt: skip
        return polyline(corners, closed=True)
    middle = (box.left + box.right) / 2, box.top
    outline = rounded(
        (middle, (box.right, box.top), (box.right, box.bottom), (box.left, box.bottom),
         (box.left, box.top), middle),
        radius,
    )  # fmt: skip
    return DrawnPath(outline.start, outline.segments, closed=True)


def circle(center: Point, radius: float) -> DrawnPath:
    """Return a circle of four curves."""
    (x, y), k = center, radius * _QUARTER
    right, low, left, high = x + radius, y + radius, x - radius, y - radius
    quarters = (
        Curve((right, y), ((x + k, high), (right, y - k))),
        Curve((x, low), ((right, y + k), (x + k, low))),
        Curve((left, y), ((x - k, low), (left, y + k))),
        Curve((x, high), ((left, y - k), (x - k, high))),
    )
    return DrawnPath((x, high), quarters, closed=True)


def shortened(path: DrawnPath, length: float) -> tuple[DrawnPath, Point]:
    """Cut `length` off the end of a path; also return the direction in which it ended there."""
    last = path.segments[-1]
    start = path.segments[-2].end if len(path.segments) > 1 else path.start
    if last.controls is None:
        cut = Curve(_towards(last.end, start, min(length, _distance(start, last.end))))
    else:
        cut = _cut_curve(start, last, length)
    direction = _unit(cut.end, last.end)
    return DrawnPath(path.start, (*path.segments[:-1], cut)), direction


@lru_cache(4096)  # a layout asks for those of each line again and again
def flattened(path: DrawnPath, steps: int = 12) -> tuple[Point, ...]:
    """Return points along the path, `steps` for each curve."""
    points = [path.start]
    for segment in path.segments:
        if segment.controls is None:
            points.append(segment.end)
        else:
            start, (first, second) = points[-1], segment.controls
            points += (
                _on_curve(start, first, second, segment.end, k / steps) for k in range(1, steps + 1)
            )
    return tuple(points)


def parallel(points: Sequence[Point], distance: float) -> DrawnPath:
    """Return the line at a distance to the right of a line through points."""
    further = (b for a, b in pairwise(points) if _distance(a, b) > 1e-6)
    distinct = [points[0], *further]
    moved: list[Point] = []
    for index, (x, y) in enumerate(distinct):
        before, after = distinct[max(index - 1, 0)], distinct[min(index + 1, len(distinct) - 1)]
        if _is_level((before, (x, y))):  # where a curve begins or ends it runs as the line does
            after = x, y
        elif _is_level(((x, y), after)):
            before = x, y
        dx, dy = _unit(before, after)
        moved.append((x - dy * distance, y + dx * distance))
    return polyline(moved)


def _is_level(part: tuple[Point, Point]) -> bool:
    """Return whether a part of a line runs level or upright."""
    (x, y), (u, v) = part
    return (x, y) != (u, v) and (x == u or y == v)


def _cut_curve(start: Point, curve: Curve, length: float) -> Curve:
    first, second = curve.controls or (start, curve.end)
    low, high = 0.0, 1.0
    for _ in range(24):
        middle = (low + high) / 2
        point = _on_curve(start, first, second, curve.end, middle)
        low, high = (middle, high) if _distance(point, curve.end) > length else (low, middle)
    a, b = _mix(start, first, low), _mix(first, second, low)
    return Curve(_on_curve(start, first, second, curve.end, low), (a, _mix(a, b, low)))


def _on_curve(p: Point, q: Point, r: Point, s: Point, t: float) -> Point:
    a, b, c = _mix(p, q, t), _mix(q, r, t), _mix(r, s, t)
    return _mix(_mix(a, b, t), _mix(b, c, t), t)


def _mix(a: Point, b: Point, t: float) -> Point:
    return a[0] + (b[0] - a[0]) * t, a[1] + (b[1] - a[1]) * t


def _distance(a: Point, b: Point) -> float:
    return hypot(b[0] - a[0], b[1] - a[1])


def _unit(a: Point, b: Point) -> Point:
    length = _distance(a, b) or 1.0
    return (b[0] - a[0]) / length, (b[1] - a[1]) / length


def _towards(start: Point, end: Point, distance: float) -> Point:
    dx, dy = _unit(start, end)
    return start[0] + dx * distance, start[1] + dy * distance
