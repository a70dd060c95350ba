"""Arrows: a route drawn as one line or two, with a head that touches what it points at."""

from __future__ import annotations

from xg.figures.draw.display import DrawnShape
from xg.figures.model import style
from xg.figures.model.figure import EdgeStyle
from xg.figures.model.geometry import DrawnPath, Point, flattened, parallel, polyline, shortened
from xg.figures.model.style import Color

_OVERLAP = 0.6  # the line reaches into the head, so that no seam shows
_DOUBLE_WIDER = 1.35
_DASHES = (4.2, 2.6)


def arrow(route: DrawnPath, kind: EdgeStyle, *, changed: bool = False) -> tuple[DrawnShape, ...]:
    """Return the shapes of an arrow along a route that ends at the head's rim."""
    color = Color.BACKWARD if changed or kind is EdgeStyle.DASHED else Color.INK
    width = style.CHANGED_WIDTH if changed else style.LINE_WIDTH
    wider = _DOUBLE_WIDER if changed or kind is EdgeStyle.DOUBLE else 1.0
    line, direction = shortened(route, style.ARROW_LENGTH - _OVERLAP)
    head = DrawnShape(_head(route.end, direction, style.ARROW_WIDTH * wider), fill=color)
    if kind is EdgeStyle.DOUBLE:
        points = flattened(line)
        rails = (parallel(points, side * style.DOUBLE_GAP / 2) for side in (-1, 1))
        return (*(DrawnShape(rail, line=color, width=width) for rail in rails), head)
    dashes = _DASHES if kind is EdgeStyle.DASHED else ()
    return DrawnShape(line, line=color, width=width, dashes=dashes), head


def _head(tip: Point, direction: Point, width: float) -> DrawnPath:
    (x, y), (dx, dy) = tip, direction
    back_x, back_y = x - dx * style.ARROW_LENGTH, y - dy * style.ARROW_LENGTH
    half = width / 2
    corners = (
        tip,
        (back_x - dy * half, back_y + dx * half),
        (back_x + dy * half, back_y - dx * half),
    )
    return polyline(corners, closed=True)
