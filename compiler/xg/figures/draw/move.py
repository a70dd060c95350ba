"""Shifting parts of a display list."""

from __future__ import annotations

from dataclasses import replace

from xg.figures.draw.display import Element, Shape, Text
from xg.figures.model.geometry import Curve, Path, Point


def moved(element: Element, dx: float, dy: float) -> Element:
    """Return the element shifted by `dx`, `dy`."""
    return replace(element, parts=tuple(_moved_part(part, dx, dy) for part in element.parts))


def _moved_part(part: Shape | Text, dx: float, dy: float) -> Shape | Text:
    if isinstance(part, Text):
        return replace(part, x=part.x + dx, y=part.y + dy)
    return replace(part, path=_moved_path(part.path, dx, dy))


def _moved_path(path: Path, dx: float, dy: float) -> Path:
    def shift(point: Point) -> Point:
        return point[0] + dx, point[1] + dy

    segments = (
        Curve(shift(s.end), (shift(s.controls[0]), shift(s.controls[1])) if s.controls else None)
        for s in path.segments
    )
    return Path(shift(path.start), tuple(segments), path.closed)
