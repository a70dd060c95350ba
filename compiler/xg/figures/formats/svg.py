"""SVG: a display list as a small, closed set of elements and attributes.

Colours are there twice: as CSS variables, which a page around the figure can set and which follow
its reader's light or dark setting, and as plain attributes, for viewers that know no variables.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from xg.diagnostics import escape
from xg.figures.draw import font
from xg.figures.draw.display import Display, DrawnShape, DrawnText, Element
from xg.figures.draw.typeset import TextSpan
from xg.figures.model.geometry import Curve, DrawnPath
from xg.figures.model.style import DARK, Color, Theme

FAMILY: Final = f"Helvetica, Arial, 'Liberation Sans', '{font.FAMILY}', sans-serif"

_HOLD: Final = ' textLength="{}" lengthAdjust="spacingAndGlyphs"'


def svg(display: Display, theme: Theme, *, follow: bool = False) -> str:
    """Write a display list as an SVG document of its own.

    With `follow`, `theme` is for a reader without a preference; one who prefers dark pages sees the
    dark theme.
    """
    colors = display.colors()
    sheet = _sheet(theme, colors) + (_dark_sheet(colors) if follow else "")
    return _document(display, theme, FAMILY, f"<style>{sheet}</style>\n")


def plain_svg(display: Display, theme: Theme) -> str:
    """Write it for a rasterizer that has only the bundled font and no style sheets."""
    return _document(display, theme, font.FAMILY, "")


def number(value: float) -> str:
    """Return a coordinate with at most two decimals, without trailing zeros or a minus zero."""
    text = f"{value:.2f}".rstrip("0").rstrip(".")
    return "0" if text == "-0" else text


def _document(display: Display, theme: Theme, family: str, sheet: str) -> str:
    width, height = number(display.width), number(display.height)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" class="xg-figure" role="img"'
        f' width="{width}pt" height="{height}pt" viewBox="0 0 {width} {height}"'
        f' font-family="{escape.xml(family)}" font-kerning="none">',
        f"<title>{escape.xml(display.title)}</title>",
        f"<desc>{escape.xml(display.description)}</desc>",
        f'{sheet}<path class="xg-background" fill="{theme.colors[Color.BACKGROUND]}"'
        f' d="M0 0H{width}V{height}H0Z"/>',
    ]
    is_held = family != font.FAMILY  # a viewer may have none of the fonts whose widths are known
    for element in display.elements:
        lines += _element(element, theme, is_held=is_held)
    return "\n".join(lines) + "\n</svg>\n"


def _sheet(theme: Theme, colors: Sequence[Color]) -> str:
    rules = "".join(
        f".xg-{color}{{fill:var(--xg-{color})}}.xg-{color}-stroke{{stroke:var(--xg-{color})}}"
        for color in colors
    )
    return f".xg-figure{{{_variables(theme, colors)}}}{rules}"


def _dark_sheet(colors: Sequence[Color]) -> str:
    return f"@media (prefers-color-scheme:dark){{.xg-figure{{{_variables(DARK, colors)}}}}}"


def _variables(theme: Theme, colors: Sequence[Color]) -> str:
    return ";".join(f"--xg-{color}:{theme.colors[color]}" for color in colors)


def _element(element: Element, theme: Theme, *, is_held: bool) -> Iterator[str]:
    op = f' data-op="{escape.xml(element.op)}"' if element.op else ""
    yield f'<g class="{element.kind}"{op}>'
    if element.title and element.op:
        yield f"<title>{escape.xml(element.title)}</title>"
    for part in element.parts:
        if isinstance(part, DrawnText):
            yield from _text(part, theme, is_held=is_held)
        else:
            yield _shape(part, theme)
    yield "</g>"


def _shape(shape: DrawnShape, theme: Theme) -> str:
    classes: list[str] = []
    paint = ' fill="none"'
    if shape.fill is not None:
        classes.append(f"xg-{shape.fill}")
        paint = f' fill="{theme.colors[shape.fill]}"'
    if shape.line is not None:
        classes.append(f"xg-{shape.line}-stroke")
        paint += f' stroke="{theme.colors[shape.line]}" stroke-width="{number(shape.width)}"'
    if shape.dashes:
        paint += f' stroke-dasharray="{" ".join(map(number, shape.dashes))}"'
    return f'<path class="{" ".join(classes)}"{paint} d="{_path(shape.path)}"/>'


def _path(path: DrawnPath) -> str:
    x, y = path.start
    steps = [f"M{number(x)} {number(y)}", *map(_segment, path.segments)]
    return "".join(steps) + ("Z" if path.closed else "")


def _segment(segment: Curve) -> str:
    points = (*(segment.controls or ()), segment.end)
    letter = "C" if segment.controls else "L"
    return letter + " ".join(f"{number(x)} {number(y)}" for x, y in points)


def _text(text: DrawnText, theme: Theme, *, is_held: bool) -> Iterator[str]:
    """Write every span at its measured place, so that a viewer's own font moves nothing.

    Where it is wider or narrower than ours, its letters are `held` to the measured width.
    """
    spans = "".join(
        _span(
            span, text, theme, _HOLD.format(number(span.width)) if is_held and holds(span) else ""
        )
        for span in text.line.spans
        if span.text
    )
    if spans:
        yield f'<text xml:space="preserve">{spans}</text>'


def holds(span: TextSpan) -> bool:
    """Return whether the width of a span is known: no letter is of a viewer's own font."""
    face = font.face(bold=span.bold, italic=span.italic)
    return all(ord(character) in face.glyphs for character in span.text)


def _span(span: TextSpan, text: DrawnText, theme: Theme, width: str) -> str:
    color = Color.MUTED if span.muted else text.color
    weight = ' font-weight="bold"' if span.bold else ""
    slant = ' font-style="italic"' if span.italic else ""
    place = f'x="{number(text.x + span.x)}" y="{number(text.y + span.y)}"'
    return (
        f'<tspan class="xg-{color}" {place}{width} font-size="{number(span.size)}"{weight}{slant}'
        f' fill="{theme.colors[color]}">{escape.xml(span.text)}</tspan>'
    )
