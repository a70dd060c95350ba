"""SVG as a part of a page: small, because the page brings the colours and the fonts.

The same closed set of elements as a document of its own has, without style sheet and colours: every
part has a class for what its colour is for, and the page says which colour that is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from xg import escape
from xg.backends.graphviz.display import Display, Element, Shape, Text
from xg.backends.graphviz.geometry import Curve, Path, Point
from xg.backends.graphviz.style import Color
from xg.backends.graphviz.typeset import Span


def svg_part(display: Display) -> str:
    """Write a display list as an `<svg>` element for the inside of a page."""
    width, height = _number(display.width), _number(display.height)
    lines = [
        f'<svg class="xg-figure" viewBox="0 0 {width} {height}" width="{width}"'
        f' height="{height}" role="group" aria-label="{escape.xml(display.title)}">',
        f"<desc>{escape.xml(display.description)}</desc>",
    ]
    lines += ("".join(_element(element)) for element in display.elements)
    return "\n".join(lines) + "\n</svg>"


def _element(element: Element) -> Iterator[str]:
    op = f' data-op="{escape.xml(element.op)}"' if element.op else ""
    yield f'<g class="{element.kind}"{op}>'
    for part in element.parts:
        yield from _text(part) if isinstance(part, Text) else (_shape(part),)
    yield "</g>"


def _shape(shape: Shape) -> str:
    """A path; without a fill of its own it has the class `line`."""
    classes = [f"xg-{shape.fill}" if shape.fill is not None else "line"]
    classes += [f"xg-{shape.line}-stroke"] if shape.line is not None else []
    width = f' stroke-width="{_number(shape.width)}"' if shape.line is not None else ""
    dashes = f' stroke-dasharray="{" ".join(map(_number, shape.dashes))}"' if shape.dashes else ""
    return f'<path class="{" ".join(classes)}"{width}{dashes} d="{_path(shape.path)}"/>'


def _text(text: Text) -> Iterator[str]:
    """Spans of one colour as an element that begins at its measured place, and runs on from there.

    A viewer's own font may move what follows within the element, and nothing else.
    """
    spans = [span for span in text.line.spans if span.text]
    for color, group in groupby(spans, lambda span: Color.MUTED if span.muted else text.color):
        first, *rest = group
        place = f'x="{_number(text.x + first.x)}" y="{_number(text.y + first.y)}"'
        inside = "".join(_spans([first, *rest], text.y))
        yield f'<text class="xg-{color}" {place} font-size="{_number(first.size)}">{inside}</text>'


def _spans(spans: Sequence[Span], line: float) -> Iterator[str]:
    """What stands in a text element: scripts, and what differs in style from plain text."""
    size, height = spans[0].size, spans[0].y
    for span in spans:
        style = ("b" if span.bold else "") + ("i" if span.italic else "")
        about = f' class="{style}"' if style else ""
        about += "" if span.size == size else f' font-size="{_number(span.size)}"'
        about += "" if span.y == height else f' y="{_number(line + span.y)}"'
        height = span.y
        content = escape.xml(span.text)
        yield f"<tspan{about}>{content}</tspan>" if about else content


def _path(path: Path) -> str:
    return "M" + _point(path.start) + "".join(map(_segment, path.segments)) + ("Z" * path.closed)


def _segment(segment: Curve) -> str:
    points = (*(segment.controls or ()), segment.end)
    return ("C" if segment.controls else "L") + " ".join(map(_point, points))


def _point(point: Point) -> str:
    return f"{_number(point[0])} {_number(point[1])}"


def _number(value: float) -> str:
    """A coordinate with one decimal: a twentieth of a point is not seen on a screen."""
    text = f"{value:.1f}".removesuffix(".0")
    return "0" if text == "-0" else text
