"""Arrows: a route drawn as one line or two, with a head that touches what it points at."""

from __future__ import annotations

from xg.figures.draw.display import DrawnShape
from xg.figures.model import style
from xg.figures.model.figure import EdgeStyle, Emphasis
from xg.figures.model.geometry import DrawnPath, Point, flattened, parallel, polyline, shortened
from xg.figures.model.style import Color

_OVERLAP = 0.6  # the line reaches into the head, so that no seam shows
_DOUBLE_WIDER = 1.35
_DASHES = (4.2, 2.6)
DOTS = (1.2, 2.2)
_THIN = 0.8


def arrow(
    route: DrawnPath,
    kind: EdgeStyle,
    mark: Emphasis = Emphasis.NONE,
    *,
    has_head: bool = True,
) -> tuple[DrawnShape, ...]:
    """Return the shapes of an arrow along a route that ends at the head's rim."""
    if kind is EdgeStyle.NOTE:
        return (DrawnShape(route, line=Color.MUTED, width=_THIN, dashes=DOTS),)
    usual = Color.BACKWARD if kind is EdgeStyle.DASHED else Color.INK
    color = style.MARKS.get(mark, usual)
    width = style.MARKED_WIDTH if _is_bold(mark) else style.LINE_WIDTH
    line, direction = shortened(route, style.ARROW_LENGTH - _OVERLAP)
    tip = DrawnShape(_head(route.end, direction, head_width(kind, mark)), fill=color)
    line, head = (line, (tip,)) if has_head else (route, ())
    dashes = DOTS if mark is Emphasis.WENT else _DASHES if kind is EdgeStyle.DASHED else ()
    if kind is EdgeStyle.DOUBLE:
        points = flattened(line)
        rails = (parallel(points, side * style.DOUBLE_GAP / 2) for side in (-1, 1))
        return (*(DrawnShape(rail, None, color, width, dashes) for rail in rails), *head)
    return DrawnShape(line, line=color, width=width, dashes=dashes), *head


def head_width(kind: EdgeStyle, mark: Emphasis) -> float:
    """Return how wide an arrow's head is."""
    is_wide = _is_bold(mark) or kind is EdgeStyle.DOUBLE
    return style.ARROW_WIDTH * (_DOUBLE_WIDER if is_wide else 1.0)


def _is_bold(mark: Emphasis) -> bool:
    return mark not in (Emphasis.NONE, Emphasis.WENT)


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
