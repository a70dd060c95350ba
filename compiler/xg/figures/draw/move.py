"""Shifting and scaling parts of a display list."""

from __future__ import annotations

from dataclasses import replace

from xg.figures.draw.display import DrawnShape, DrawnText, Element
from xg.figures.draw.typeset import TextLine
from xg.figures.model.geometry import Curve, DrawnPath, Point


def moved(element: Element, dx: float, dy: float, scale: float = 1.0) -> Element:
    """Return the element at another scale, and then shifted by `dx`, `dy`."""
    parts = tuple(_moved_part(part, dx, dy, scale) for part in element.parts)
    return Element(element.op, element.kind, element.title, parts, element.wire)


def _moved_part(
    part: DrawnShape | DrawnText, dx: float, dy: float, scale: float
) -> DrawnShape | DrawnText:
    if isinstance(part, DrawnText):
        line = part.line if scale == 1.0 else _scaled(part.line, scale)
        return DrawnText(line, part.x * scale + dx, part.y * scale + dy, part.color, part.align)
    path = _moved_path(part.path, dx, dy, scale)
    width, dashes = part.width * scale, tuple(each * scale for each in part.dashes)
    return DrawnShape(path, part.fill, part.line, width, dashes)


def _scaled(line: TextLine, scale: float) -> TextLine:
    spans = (
        replace(span, x=span.x * scale, y=span.y * scale, size=span.size * scale)
        for span in line.spans
    )
    ascent, descent = line.ascent * scale, line.descent * scale
    return TextLine(tuple(spans), line.width * scale, ascent, descent)


def _moved_path(path: DrawnPath, dx: float, dy: float, scale: float) -> DrawnPath:
    def shift(point: Point) -> Point:
        return point[0] * scale + dx, point[1] * scale + dy

    segments = (
        Curve(shift(s.end), (shift(s.controls[0]), shift(s.controls[1])) if s.controls else None)
        for s in path.segments
    )
    return DrawnPath(shift(path.start), tuple(segments), path.closed)
