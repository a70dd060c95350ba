"""SVG as parts of a page: small, because the page has the colours and the fonts.

The same closed set of elements as a document of its own has, without colours, and `use`. Most parts
have no class or a short one, and `SHEET` says how it looks: ink is the default, `e` a line of an
arrow, `m` a shape beside a name, `i` and `b` slanted and bold text; `g`, `t` and `d` are the sizes
of a glyph, of a tensor and of a detail; `f-`, `l-` and `b-` are a colour of the area, of the line
and of both. A shape is written once for all figures of a page, and so
is a long text that is no title.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Final

from xg.diagnostics import escape
from xg.diagnostics.lazy_dataclass import dataclass, field
from xg.figures.draw.display import Display, DrawnShape, DrawnText, Element
from xg.figures.draw.typeset import TextSpan
from xg.figures.model.geometry import DrawnPath, Point
from xg.figures.model.style import (
    DETAIL_SIZE,
    GLYPH_SIZE,
    LINE_WIDTH,
    SHAPE_SIZE,
    SYMBOL_SIZE,
    TENSOR_SIZE,
    TITLE_SIZE,
    Color,
    Theme,
)

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
    """The style sheet of all parts; its colours are variables, which the page gives values."""
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
        return f'<use href="#{name}" x="{_number(x)}" y="{_number(y)}"/>'

    def svg(self, start: int = 0, stop: int | None = None) -> str:
        """The texts themselves, or some in a row, in an element that takes no room."""
        texts = (f'<text id="{name}"{text}</text>' for text, name in self.texts.items())
        texts = islice(texts, start, stop)
        return f'<svg class="xg-figure" width="0" height="0"><defs>{"".join(texts)}</defs></svg>'


def svg_part(display: Display, shared: Shared, name: str = "") -> str:
    """Write a display list as an `<svg>` element for the inside of a page.

    All that is in it is one group with the id `name`, where there is one, for others to show again.
    """
    width, height = _number(display.width), _number(display.height)
    lines = [
        f'<svg class="xg-figure" viewBox="0 0 {width} {height}" width="{width}pt"'
        f' role="group" aria-label="{escape.xml(display.title)}">',
        f"<desc>{escape.xml(display.description)}</desc>",
    ]
    body = ["".join(_element(element, shared)) for element in display.elements]
    lines += [f'<g id="{escape.xml(name)}">', *body, "</g>"] if name else body
    return "\n".join(lines) + "\n</svg>"


def _element(element: Element, shared: Shared) -> Iterator[str]:
    # An attribute may have a ">" as it is.
    name = escape.xml(element.op).replace("&gt;", ">")
    op = f' data-op="{name}"' if name else ""
    yield f'<g class="{element.kind}"{op}>'
    for part in element.parts:
        yield from _text(part, shared) if isinstance(part, DrawnText) else (_shape(part),)
    yield "</g>"


def _shape(shape: DrawnShape) -> str:
    if shape.line is Color.INK and shape.width == LINE_WIDTH and shape.fill is None:
        about = ' class="e"'
    else:
        classes = " ".join(_classes(shape))
        about = f' class="{classes}"' if classes else ""
        thick = shape.line is not None and shape.width != 1
        about += f' stroke-width="{_number(shape.width)}"' if thick else ""
    if shape.dashes:
        about += f' stroke-dasharray="{" ".join(map(_number, shape.dashes))}"'
    return f'<path{about} d="{_path(shape.path)}"/>'


def _classes(shape: DrawnShape) -> Iterator[str]:
    """The fill of a shape, the stroke of its line; both at once where they belong together."""
    if shape.fill is not None and shape.line == f"{shape.fill}-line":
        yield f"b-{shape.fill}"
        return
    if shape.fill is not Color.INK:
        yield "n" if shape.fill is None else f"f-{shape.fill}"
    if shape.line is not None:
        yield f"l-{shape.line}"


def _text(text: DrawnText, shared: Shared) -> Iterator[str]:
    """Pieces of a line, each an element that begins at its measured place and runs on from there.

    A viewer's own font may move what follows within a piece, and nothing else.
    """
    for muted, spans in _pieces(text.line.spans):
        first, color = spans[0], Color.MUTED if muted else text.color
        x, y = text.x + first.x, text.y
        if color is Color.MUTED and first.size == SHAPE_SIZE and first.y == 0:
            yield shared.use(' class="m"', "".join(_spans(spans, -first.x, 0)), x, y)
            continue
        inside = "".join(_spans(spans, -first.x, -first.y))
        if len(inside) > _LONG and first.size < TITLE_SIZE:
            yield shared.use(_looks(first.size, color), inside, x, y + first.y)
            continue
        # A piece of one style says so itself, and needs no element inside.
        style = _style(first) if len(spans) == 1 else ""
        inside = escape.xml(first.text) if style else "".join(_spans(spans, text.x, y))
        place = f' x="{_number(x)}" y="{_number(y + first.y)}"'
        yield f"<text{_looks(first.size, color, style)}{place}>{inside}</text>"


def _looks(size: float, color: Color, style: str = "") -> str:
    """The attributes of a text in a size and a colour: classes, and a size that has none."""
    classes = (_SIZES.get(size), style, None if color is Color.INK else f"f-{color}")
    about = " ".join(filter(None, classes))
    about = f' class="{about}"' if about else ""
    if size == SYMBOL_SIZE or size in _SIZES:
        return about
    return f'{about} font-size="{_number(size)}"'


def _style(span: TextSpan) -> str:
    """The classes of slanted and bold text, none for plain text."""
    return " ".join("b" * span.bold + "i" * span.italic)


def _pieces(spans: Sequence[TextSpan]) -> Iterator[tuple[bool, list[TextSpan]]]:
    """Neighbours of one colour and one size, scripts with their bases, and whether muted."""
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


def _spans(spans: Sequence[TextSpan], x: float, y: float) -> Iterator[str]:
    """The contents of a text element: scripts, and text in another style than plain.

    A place is given where the spans are not consecutive: a superscript is above a subscript.
    """
    size, here, height = spans[0].size, spans[0].x, spans[0].y
    for span in spans:
        style = _style(span)
        about = f' class="{style}"' if style else ""
        about += "" if span.size == size else f' font-size="{_number(span.size)}"'
        about += "" if abs(span.x - here) < _RUNS_ON else f' x="{_number(x + span.x)}"'
        about += "" if span.y == height else f' y="{_number(y + span.y)}"'
        here, height = span.x + span.width, span.y
        content = escape.xml(span.text)
        yield f"<tspan{about}>{content}</tspan>" if about else content


def _path(path: DrawnPath) -> str:
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
        return f"h{_number(step[0] / 10)}"
    return f"v{_number(step[1] / 10)}" if step[0] == 0 else f"l{_pair(step)}"


def _tenths(point: Point) -> tuple[int, int]:
    return round(point[0] * 10), round(point[1] * 10)


def _pair(step: tuple[int, int]) -> str:
    x, y = (_number(part / 10) for part in step)
    return f"{x}{y}" if y.startswith("-") else f"{x} {y}"


def _number(value: float) -> str:
    """A coordinate with one decimal: a twentieth of a point is not seen on a screen."""
    text = f"{value:.1f}".removesuffix(".0")
    text = text.replace("0.", ".") if abs(value) < 1 else text
    return "0" if text == "-0" else text
