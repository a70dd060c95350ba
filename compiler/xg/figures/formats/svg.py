"""Write a display list as an SVG document, as parts of a page, or as PNG.

A document has its colors as plain attributes, because Typst, CairoSVG and others know no CSS
variables. The theme "auto" adds a style sheet that replaces them for readers of dark pages.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Final

from xg.diagnostics import escape
from xg.diagnostics.lazy_dataclass import dataclass, field
from xg.figures.draw import font
from xg.figures.draw.font import TextSpan
from xg.figures.draw.glyph import (
    REPLACEMENT,
    Display,
    DrawnShape,
    DrawnText,
    Element,
    find_faces,
    lost_characters,
    missing_characters,
)
from xg.figures.model.figure import (
    DARK,
    DETAIL_SIZE,
    GLYPH_SIZE,
    LINE_WIDTH,
    SHAPE_SIZE,
    SYMBOL_SIZE,
    TENSOR_SIZE,
    TITLE_SIZE,
    Color,
    Curve,
    DrawnPath,
    Point,
    Theme,
)

FAMILY: Final = f"Helvetica, Arial, 'Liberation Sans', '{font.FAMILY}', sans-serif"

_HOLD: Final = ' textLength="{}" lengthAdjust="spacingAndGlyphs"'


def svg(display: Display, theme: Theme, *, follow: bool = False) -> str:
    """Write a display list as an SVG document of its own.

    With `follow`, `theme` is for a reader without a preference; one who prefers dark pages sees the
    dark theme.
    """
    sheet = f"<style>{_dark_sheet(display.colors())}</style>\n" if follow else ""
    width, height = number(display.width), number(display.height)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" class="xg-figure" role="img"'
        f' width="{width}pt" height="{height}pt" viewBox="0 0 {width} {height}"'
        f' font-family="{escape.xml(FAMILY)}" font-kerning="none">',
        f"<title>{escape.xml(display.title)}</title>",
        f"<desc>{escape.xml(display.description)}</desc>",
        f'{sheet}<path class="xg-background" fill="{theme.colors[Color.BACKGROUND]}"'
        f' d="M0 0H{width}V{height}H0Z"/>',
    ]
    for element, name in zip(display.elements, display.names(), strict=True):
        lines += _element(element, name, theme)
    return "\n".join(lines) + "\n</svg>\n"


def number(value: float) -> str:
    """Return a coordinate with at most two decimals, without trailing zeros or a minus zero."""
    text = f"{value:.2f}".rstrip("0").rstrip(".")
    return "0" if text == "-0" else text


def _dark_sheet(colors: Sequence[Color]) -> str:
    """Return the colors of the dark theme. Only browsers use them: others ignore `@media`."""
    rules = (
        f".xg-{color}{{fill:{value}}}.xg-{color}-stroke{{stroke:{value}}}"
        for color, value in ((color, DARK.colors[color]) for color in colors)
    )
    return f"@media (prefers-color-scheme:dark){{{''.join(rules)}}}"


def _element(element: Element, name: str, theme: Theme) -> Iterator[str]:
    """Write an element as a group, whose id is the name of a layer in Inkscape and Illustrator."""
    op = f' data-op="{escape.xml(element.op)}"' if element.op else ""
    yield f'<g class="{element.kind}"{op} id="{name}">'
    if element.title and element.op:
        yield f"<title>{escape.xml(element.title)}</title>"
    for part in element.parts:
        if isinstance(part, DrawnText):
            yield from _text(part, theme)
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


def _text(text: DrawnText, theme: Theme) -> Iterator[str]:
    """Write every span at its measured place, so that a viewer's own font moves nothing.

    If that font is wider or narrower than ours, `textLength` holds letters to the measured width.
    """
    spans = "".join(
        _span(span, text, theme, _HOLD.format(number(span.width)) if holds(span) else "")
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


# SVG as parts of a page: small, because the page has the colors and the fonts.
#
# The same closed set of elements as a document of its own has, without colors, and `use`. Most
# parts have no class or a short one, and `SHEET` says how it looks: ink is the default, `e` a line
# of an arrow, `m` a shape beside a name, `i` and `b` slanted and bold text; `g`, `t` and `d` are
# the sizes of a glyph, of a tensor and of a detail; `f-`, `l-` and `b-` are a color of the area,
# of the line and of both. A shape is written once for all figures of a page, and so is a long text
# that is no title.


SHEET: Final = (
    f".xg-figure{{font-size:{SYMBOL_SIZE}px;font-kerning:none;fill:var(--xg-ink)}}"
    f".m{{fill:var(--xg-muted);font-size:{SHAPE_SIZE}px}}"
    f".g{{font-size:{GLYPH_SIZE}px}}.t{{font-size:{TENSOR_SIZE}px}}.d{{font-size:{DETAIL_SIZE}px}}"
    f".e{{fill:none;stroke:var(--xg-ink);stroke-width:{LINE_WIDTH}}}"
    ".n{fill:none}.i{font-style:italic}.b{font-weight:bold}"
)

_SIZES: Final = {GLYPH_SIZE: "g", TENSOR_SIZE: "t", DETAIL_SIZE: "d"}  # points, and the class

_RUNS_ON: Final = 0.5  # points
_LONG: Final = 60  # characters of a text that is shared: what a collective costs


def sheet(theme: Theme) -> str:
    """The style sheet of all parts; its colors are variables, which the page gives values."""
    rules: list[str] = []
    for color in theme.colors:
        fill, line = f"fill:var(--xg-{color})", f"stroke:var(--xg-{color})"
        rules += [f".f-{color}{{{fill}}}", f".l-{color}{{{line}}}"]
        if f"{color}-line" in theme.colors:
            rules.append(f".b-{color}{{{fill};stroke:var(--xg-{color}-line)}}")
    return SHEET + "".join(rules)


@dataclass(slots=True)
class Shared:
    """The shapes that the figures of one page have in common, each with its id."""

    texts: dict[str, str] = field(default_factory=dict[str, str])

    def use(self, about: str, inside: str, x: float, y: float) -> str:
        """A text with these attributes at a place."""
        name = self.texts.setdefault(f"{about}>{inside}", f"t{len(self.texts)}")
        return f'<use href="#{name}" x="{_short_number(x)}" y="{_short_number(y)}"/>'

    def svg(self, start: int = 0, stop: int | None = None) -> str:
        """The texts themselves, or some in a row, in an element that takes no room."""
        texts = (f'<text id="{name}"{text}</text>' for text, name in self.texts.items())
        texts = islice(texts, start, stop)
        return f'<svg class="xg-figure" width="0" height="0"><defs>{"".join(texts)}</defs></svg>'


def svg_part(display: Display, shared: Shared, name: str = "") -> str:
    """Write a display list as an `<svg>` element for the inside of a page.

    All that is in it is one group with the id `name`, where there is one, for others to show again.
    """
    width, height = _short_number(display.width), _short_number(display.height)
    lines = [
        f'<svg class="xg-figure" viewBox="0 0 {width} {height}" width="{width}pt"'
        f' role="group" aria-label="{escape.xml(display.title)}">',
        f"<desc>{escape.xml(display.description)}</desc>",
    ]
    body = ["".join(_part_element(element, shared)) for element in display.elements]
    lines += [f'<g id="{escape.xml(name)}">', *body, "</g>"] if name else body
    return "\n".join(lines) + "\n</svg>"


def _part_element(element: Element, shared: Shared) -> Iterator[str]:
    # An attribute may have a ">" as it is.
    name = escape.xml(element.op).replace("&gt;", ">")
    op = f' data-op="{name}"' if name else ""
    yield f'<g class="{element.kind}"{op}>'
    for part in element.parts:
        yield from _part_text(part, shared) if isinstance(part, DrawnText) else (_part_shape(part),)
    yield "</g>"


def _part_shape(shape: DrawnShape) -> str:
    if shape.line is Color.INK and shape.width == LINE_WIDTH and shape.fill is None:
        about = ' class="e"'
    else:
        classes = " ".join(_classes(shape))
        about = f' class="{classes}"' if classes else ""
        thick = shape.line is not None and shape.width != 1
        about += f' stroke-width="{_short_number(shape.width)}"' if thick else ""
    if shape.dashes:
        about += f' stroke-dasharray="{" ".join(map(_short_number, shape.dashes))}"'
    return f'<path{about} d="{_part_path(shape.path)}"/>'


def _classes(shape: DrawnShape) -> Iterator[str]:
    """The fill of a shape, the stroke of its line; both at once where they belong together."""
    if shape.fill is not None and shape.line == f"{shape.fill}-line":
        yield f"b-{shape.fill}"
        return
    if shape.fill is not Color.INK:
        yield "n" if shape.fill is None else f"f-{shape.fill}"
    if shape.line is not None:
        yield f"l-{shape.line}"


def _part_text(text: DrawnText, shared: Shared) -> Iterator[str]:
    """Pieces of a line, each an element that begins at its measured place and runs on from there.

    A viewer's own font may move what follows within a piece, and nothing else.
    """
    for muted, spans in _pieces(text.line.spans):
        first, color = spans[0], Color.MUTED if muted else text.color
        x, y = text.x + first.x, text.y
        if color is Color.MUTED and first.size == SHAPE_SIZE and first.y == 0:
            yield shared.use(' class="m"', "".join(_part_spans(spans, -first.x, 0)), x, y)
            continue
        inside = "".join(_part_spans(spans, -first.x, -first.y))
        if len(inside) > _LONG and first.size < TITLE_SIZE:
            yield shared.use(_looks(first.size, color), inside, x, y + first.y)
            continue
        # A piece of one style says so itself, and needs no element inside.
        style = _style(first) if len(spans) == 1 else ""
        inside = escape.xml(first.text) if style else "".join(_part_spans(spans, text.x, y))
        place = f' x="{_short_number(x)}" y="{_short_number(y + first.y)}"'
        yield f"<text{_looks(first.size, color, style)}{place}>{inside}</text>"


def _looks(size: float, color: Color, style: str = "") -> str:
    """The attributes of a text in a size and a color: classes, and a size that has none."""
    classes = (_SIZES.get(size), style, None if color is Color.INK else f"f-{color}")
    about = " ".join(filter(None, classes))
    about = f' class="{about}"' if about else ""
    if size == SYMBOL_SIZE or size in _SIZES:
        return about
    return f'{about} font-size="{_short_number(size)}"'


def _style(span: TextSpan) -> str:
    """The classes of slanted and bold text, none for plain text."""
    return " ".join("b" * span.bold + "i" * span.italic)


def _pieces(spans: Sequence[TextSpan]) -> Iterator[tuple[bool, list[TextSpan]]]:
    """Neighbors of one color and one size, scripts with their bases, and whether muted."""
    pieces: list[list[TextSpan]] = []
    for span in spans:
        last = pieces[-1][0] if pieces else None
        if last and last.muted == span.muted and (span.y != last.y or span.size == last.size):
            pieces[-1].append(span)
        elif span.text.strip():
            pieces.append([span])
    for piece in pieces:
        while not piece[-1].text.strip():
            piece.pop()
        yield piece[0].muted, piece


def _part_spans(spans: Sequence[TextSpan], x: float, y: float) -> Iterator[str]:
    """The contents of a text element: scripts, and text in another style than plain.

    A place is given where the spans are not consecutive: a superscript is above a subscript.
    """
    size, here, height = spans[0].size, spans[0].x, spans[0].y
    for span in spans:
        style = _style(span)
        about = f' class="{style}"' if style else ""
        about += "" if span.size == size else f' font-size="{_short_number(span.size)}"'
        about += "" if abs(span.x - here) < _RUNS_ON else f' x="{_short_number(x + span.x)}"'
        about += "" if span.y == height else f' y="{_short_number(y + span.y)}"'
        here, height = span.x + span.width, span.y
        content = escape.xml(span.text)
        yield f"<tspan{about}>{content}</tspan>" if about else content


def _part_path(path: DrawnPath) -> str:
    """A path in relative steps of tenths, which do not add up to an error."""
    here = _tenths(path.start)
    text = f"M{_pair(here)}"
    for segment in path.segments:
        points = [_tenths(point) for point in (*(segment.controls or ()), segment.end)]
        steps = [(x - here[0], y - here[1]) for x, y in points]
        text += _curve(steps) if segment.controls else _line(steps[0])
        here = points[-1]
    return text + ("z" if path.closed else "")


def _curve(steps: Sequence[tuple[int, int]]) -> str:
    pairs = map(_pair, steps)
    return "c" + "".join(pair if pair.startswith("-") else f" {pair}" for pair in pairs).lstrip()


def _line(step: tuple[int, int]) -> str:
    if step[1] == 0:
        return f"h{_short_number(step[0] / 10)}"
    return f"v{_short_number(step[1] / 10)}" if step[0] == 0 else f"l{_pair(step)}"


def _tenths(point: Point) -> tuple[int, int]:
    return round(point[0] * 10), round(point[1] * 10)


def _pair(step: tuple[int, int]) -> str:
    x, y = (_short_number(part / 10) for part in step)
    return f"{x}{y}" if y.startswith("-") else f"{x} {y}"


def _short_number(value: float) -> str:
    """A coordinate with one decimal: a twentieth of a point is not seen on a screen."""
    text = f"{value:.1f}".removesuffix(".0")
    text = text.replace("0.", ".") if abs(value) < 1 else text
    return "0" if text == "-0" else text


# PNG: the SVG drawn by resvg with the bundled font, so it looks the same on every machine. For
# characters that this font lacks, resvg also gets fonts of the machine.


SCALE: Final = 2.0
_PIXELS_PER_POINT: Final = 96 / 72
_LARGEST_SIDE: Final = 16_000  # pixels; a larger figure is drawn at a smaller scale
_LARGEST_AREA: Final = 40_000_000  # pixels: 160 MB in the memory of a viewer


def png(display: Display, theme: Theme) -> bytes:
    """Draw a display list at twice the usual 96 pixels per inch."""
    from resvg_py import svg_to_bytes  # a large library, for PNG only

    lost = lost_characters(display)  # resvg stops at the first one, and draws no other
    others = find_faces(missing_characters(display))
    files = (*font.FILES.values(), *(one.path for one in others))
    return bytes(
        svg_to_bytes(
            svg_string=svg(display, theme).translate(dict.fromkeys(map(ord, lost), REPLACEMENT)),
            dpi=96,
            zoom=scale(display.width * _PIXELS_PER_POINT, display.height * _PIXELS_PER_POINT),
            skip_system_fonts=True,
            font_family=font.FAMILY,
            sans_serif_family=font.FAMILY,
            font_files=[str(path) for path in files],
        )
    )


def scale(width: float, height: float) -> float:
    """The pixels of the picture for a pixel at 96 to the inch: fewer where it is large."""
    side, area = _LARGEST_SIDE / max(width, height), _LARGEST_AREA / (width * height)
    return min(SCALE, side, math.sqrt(area))
