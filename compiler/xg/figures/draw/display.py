"""Define the display list: a finished picture as paths, arrows and lines of text.

Colours are uses, not values: the theme comes in when a format is written.
"""

from __future__ import annotations

from xg.diagnostics.lazy_dataclass import dataclass, replace
from xg.figures.draw.font import TextLine
from xg.figures.model import style
from xg.figures.model.figure import EdgeStyle, Emphasis
from xg.figures.model.geometry import (
    Curve,
    DrawnPath,
    Point,
    flattened,
    parallel,
    polyline,
    shortened,
)
from xg.figures.model.style import OF_MARKS, Color


@dataclass(frozen=True, slots=True)
class DrawnShape:
    """A path that is filled, stroked or both."""

    path: DrawnPath
    fill: Color | None = None
    line: Color | None = None
    width: float = 0.0
    dashes: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class DrawnText:
    """A set line whose baseline starts at `x`, `y`; its muted spans are set in MUTED.

    Text of another width stays where it is at its start, its middle or its end: 0, 0.5, 1.
    """

    line: TextLine
    x: float
    y: float
    color: Color = Color.INK
    align: float = 0.0


@dataclass(frozen=True, slots=True)
class Wire:
    """The elements at an edge's ends by their `op`, and a name of the value that it carries.

    `output` is the number of a result: of the tail, of a dashed edge of the head.
    """

    tail: str
    head: str
    value: str
    output: int = 0

    @property
    def ends(self) -> tuple[str, str, int]:
        """Return the key of an edge."""
        return self.tail, self.head, self.output

    @property
    def back(self) -> tuple[str, str, int]:
        """Return the key of the edge that runs the other way beside it."""
        return self.head, self.tail, self.output


@dataclass(frozen=True, slots=True)
class Element:
    """One element: a node, an edge with its label, a lane. `op` is its `data-op`."""

    op: str
    kind: str
    title: str
    parts: tuple[DrawnShape | DrawnText, ...]
    wire: Wire | None = None  # of an edge


@dataclass(frozen=True, slots=True)
class Display:
    """A picture of `width` by `height` points, its elements from back to front."""

    width: float
    height: float
    title: str
    description: str
    elements: tuple[Element, ...]

    def colors(self) -> list[Color]:
        """Return the uses of colour to define: the usual ones, and those of marks that it has."""
        parts = [part for element in self.elements for part in element.parts]
        marked = {part.color for part in parts if isinstance(part, DrawnText)}
        marked |= {part.line for part in parts if isinstance(part, DrawnShape)}
        return [one for one in Color if one not in OF_MARKS or one in marked]


# Shifting and scaling parts of a display list.


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


# Arrows: a route drawn as one line or two, with a head that touches what it points at.


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
