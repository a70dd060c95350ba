"""Shifting parts of a display list."""

from __future__ import annotations

from xg.figures.draw.display import DrawnShape, DrawnText, Element
from xg.figures.model.geometry import Curve, DrawnPath, Point


def moved(element: Element, dx: float, dy: float) -> Element:
    """Return the element shifted by `dx`, `dy`."""
    parts = tuple(_moved_part(part, dx, dy) for part in element.parts)
    return Element(element.op, element.kind, element.title, parts, element.wire)


def _moved_part(part: DrawnShape | DrawnText, dx: float, dy: float) -> DrawnShape | DrawnText:
    if isinstance(part, DrawnText):
        return DrawnText(part.line, part.x + dx, part.y + dy, part.color, part.align)
    path = _moved_path(part.path, dx, dy)
    return DrawnShape(path, part.fill, part.line, part.width, part.dashes)


def _moved_path(path: DrawnPath, dx: float, dy: float) -> DrawnPath:
    def shift(point: Point) -> Point:
        return point[0] + dx, point[1] + dy

    segments = (
        Curve(shift(s.end), (shift(s.controls[0]), shift(s.controls[1])) if s.controls else None)
        for s in path.segments
    )
    return DrawnPath(shift(path.start), tuple(segments), path.closed)
