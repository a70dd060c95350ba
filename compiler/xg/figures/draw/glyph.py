"""Measure nodes, draw the shape of each kind into its box, and explain it in the legend."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cache, lru_cache
from pathlib import Path
from struct import error, unpack_from
from typing import Final, Literal
from unicodedata import category

from xg.diagnostics import escape
from xg.diagnostics.lazy_dataclass import dataclass, replace
from xg.figures.draw import font
from xg.figures.draw.font import (
    Face,
    TextLine,
    advance_widths,
    characters,
    face,
    table_places,
    typeset,
    wrap_text,
)
from xg.figures.model import figure as style
from xg.figures.model.figure import (
    OF_MARKS,
    Box,
    Color,
    DrawnPath,
    EdgeStyle,
    Emphasis,
    Figure,
    FigureNode,
    NodeKind,
    NodeStyle,
    Outline,
    Point,
    circle,
    cut_end,
    parallel,
    path_points,
    polyline,
    rectangle,
)
from xg.figures.model.richtext import NOTE_SPACE, RichText, plain, plain_name
from xg.ir.collectives import COLLECTIVES

# Define the display list: a finished picture as paths, arrows and lines of text.
#
# Colors are uses, not values: the theme comes in when a format is written.


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
        """Return the color uses to define: the usual ones, and one for each mark in the figure."""
        parts = [part for element in self.elements for part in element.parts]
        marked = {part.color for part in parts if isinstance(part, DrawnText)}
        marked |= {part.line for part in parts if isinstance(part, DrawnShape)}
        return [one for one in Color if one not in OF_MARKS or one in marked]

    def names(self) -> list[str]:
        """Return a unique name for each element: node-LN, edge-X-to-LN, legend-2.

        A figure has the same names in every format. Most stay the same if a step is added.
        """
        taken: Counter[str] = Counter()
        return [_unique(_element_name(one), taken) for one in self.elements]


def _element_name(element: Element) -> str:
    kind, _, form = element.kind.partition(" ")
    if element.wire is not None:
        ends = (plain_name(end) for end in (element.wire.tail, element.wire.head))
        return f"{kind}-{'-to-'.join(ends)}"
    return "-".join(filter(None, (kind, plain_name(element.op) or form)))


def _unique(name: str, taken: Counter[str]) -> str:
    taken[name] += 1
    if taken[name] == 1:
        return name
    return _unique(f"{name}-{taken[name]}", taken)


# Shifting and scaling parts of a display list.


def moved(element: Element, dx: float, dy: float, scale: float = 1.0) -> Element:
    """Return the element at another scale, and then shifted by `dx`, `dy`."""
    parts = tuple(_moved_part(part, dx, dy, scale) for part in element.parts)
    return Element(element.op, element.kind, element.title, parts, element.wire)


def _moved_part(
    part: DrawnShape | DrawnText, dx: float, dy: float, scale: float
) -> DrawnShape | DrawnText:
    if isinstance(part, DrawnText):
        line = part.line if scale == 1.0 else _scale_line(part.line, scale)
        return DrawnText(line, part.x * scale + dx, part.y * scale + dy, part.color, part.align)
    path = part.path.mapped(lambda point: (point[0] * scale + dx, point[1] * scale + dy))
    width, dashes = part.width * scale, tuple(each * scale for each in part.dashes)
    return DrawnShape(path, part.fill, part.line, width, dashes)


def _scale_line(line: TextLine, scale: float) -> TextLine:
    spans = (
        replace(span, x=span.x * scale, y=span.y * scale, size=span.size * scale)
        for span in line.spans
    )
    ascent, descent = line.ascent * scale, line.descent * scale
    return TextLine(tuple(spans), line.width * scale, ascent, descent)


# Arrows: a route drawn as one line or two, with a head that touches what it points at.


_OVERLAP = 0.6  # the line reaches into the head, so that no seam shows
_DOUBLE_WIDER = 1.35
_DASHES = (4.2, 2.6)
DOTS = (1.2, 2.2)
_THIN = 0.8


def arrow(
    route: DrawnPath, kind: EdgeStyle, mark: Emphasis = Emphasis.NONE, *, has_head: bool = True
) -> tuple[DrawnShape, ...]:
    """Return the shapes of an arrow along a route that ends at the head's rim."""
    if kind is EdgeStyle.NOTE:
        return (DrawnShape(route, line=Color.MUTED, width=_THIN, dashes=DOTS),)
    usual = Color.BACKWARD if kind is EdgeStyle.DASHED else Color.INK
    color = style.MARKS.get(mark, usual)
    width = style.MARKED_WIDTH if _is_bold(mark) else style.LINE_WIDTH
    line, direction = cut_end(route, style.ARROW_LENGTH - _OVERLAP)
    tip = DrawnShape(_head(route.end, direction, head_width(kind, mark)), fill=color)
    line, head = (line, (tip,)) if has_head else (route, ())
    dashes = DOTS if mark is Emphasis.WENT else _DASHES if kind is EdgeStyle.DASHED else ()
    if kind is EdgeStyle.DOUBLE:
        points = path_points(line)
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


# Measuring: how large each node and each edge's label is, in points.


_WITHOUT_TEXT: Final = (NodeKind.MATMUL, NodeKind.ADD, NodeKind.MUL)
DETAIL_LEADING: Final = 3.0  # between a node's label and its second line
_LABEL_LEADING: Final = 11.5  # between the baselines of an edge's label
_WIDEST_NOTE: Final = 150.0
_TEXT_LEADING: Final = DETAIL_LEADING + 2.5  # from the foot of a line to the next one's capitals


@dataclass(frozen=True, slots=True)
class Extent:
    """Width and height in points."""

    width: float
    height: float

    def transpose(self) -> Extent:
        """Return the size with width and height exchanged."""
        return Extent(self.height, self.width)


def node_lines(node: FigureNode) -> tuple[TextLine, ...]:
    """Return the set lines inside a node: its label and quiet ones; none for • ⊕ ⊙ Σ."""
    if node.kind in _WITHOUT_TEXT:
        return ()
    if node.kind in (NodeKind.TENSOR, NodeKind.SAVED):
        # The lines of a list are all as large as its label.
        lines = (*_wrapped(node.label, style.TENSOR_SIZE), *node.lines)
        return tuple(typeset(text, style.TENSOR_SIZE, style.SHAPE_SIZE) for text in lines)
    if node.kind is NodeKind.NOTE:
        lines = wrap_text(node.label, style.GLYPH_SIZE, _WIDEST_NOTE)
        return tuple(typeset(text, style.GLYPH_SIZE) for text in lines)
    label = typeset(node.label, style.GLYPH_SIZE)
    quiet = (node.detail, *node.lines)
    return (label, *(typeset(text, style.DETAIL_SIZE) for text in quiet if text))


def node_size(node: FigureNode) -> Extent:
    """Return the size of a node's frame, or of its text where it has none."""
    look = style.NODE_STYLES[node.kind]
    lines = node_lines(node)
    padding = 0.0 if look.outline is style.Outline.NONE else 2 * style.BOX_PADDING
    width = max((line.width + padding for line in lines), default=0.0)
    extra = sum(line.height + DETAIL_LEADING for line in lines[1:])
    if look.outline is style.Outline.NONE:  # arrows end at the first and the last line
        extra = sum(font.CAP_HEIGHT * _size(line) + _TEXT_LEADING for line in lines[1:])
    return Extent(max(width, look.width), look.height + extra)


def edge_lines(label: RichText) -> tuple[TextLine, ...]:
    """Set the label of an edge; one with a long note has several lines."""
    lines = _wrapped(label, style.SYMBOL_SIZE)
    return tuple(typeset(line, style.SYMBOL_SIZE, style.SHAPE_SIZE) for line in lines)


def _wrapped(label: RichText, size: float) -> Iterable[RichText]:
    """Break a label with a note into lines, without the spaces at their ends."""
    if not label:
        return (label,)
    has_note = any(run.italic and run.text.startswith(NOTE_SPACE) for run in label)
    lines = wrap_text(label, size, _WIDEST_NOTE) if has_note else (label,)
    return tuple((*line[:-1], replace(line[-1], text=line[-1].text.rstrip())) for line in lines)


def label_baselines(count: int) -> list[float]:
    """Return the baselines of a label's lines, relative to the baseline of a single line."""
    return [(place - (count - 1) / 2) * _LABEL_LEADING for place in range(count)]


def pair_size(down: RichText, up: RichText, *, turned: bool) -> Extent:
    """Return the room of the labels at both sides of an arrow and its way back: one line."""
    sizes = [label_size(label, turned=turned) for label in (down, up) if label]
    half = max((size.width for size in sizes), default=0.0) + style.PAIR_GAP / 2
    return Extent(2 * half, max((size.height for size in sizes), default=style.SYMBOL_SIZE))


def label_size(label: RichText, *, turned: bool) -> Extent:
    """Return the room an edge's label takes beside its line, the gap to the line included.

    In a figure that will be `turned` its width is what will be the height below the line.
    """
    lines = edge_lines(label)
    width = max(line.width for line in lines)
    height = lines[0].height + (len(lines) - 1) * _LABEL_LEADING
    if turned:
        return Extent(height + style.LABEL_GAP_BELOW, width + 2 * style.LABEL_GAP)
    return Extent(width + style.LABEL_GAP + 2.0, max(height, style.SYMBOL_SIZE))


_ROUNDING: Final = 6.0
_SIGN: Final = 0.56  # reach of ⊕'s strokes, of the radius
_SIGN_WIDTH: Final = 1.15
_TAG_ABOVE: Final = 2.2  # between a tag's capitals and its frame
_TAG_BELOW: Final = 3.0
_TAG_ROUNDING: Final = 2.6
_TAG_LINE: Final = 0.8


def glyph(node: FigureNode, box: Box, align: float = 0.5) -> tuple[DrawnShape | DrawnText, ...]:
    """Draw a node: its frame, then its contents; lines of text without a frame are aligned."""
    look = style.NODE_STYLES[node.kind]
    color = style.MARKS.get(node.mark)
    if color is None:
        return (*frame(look, box), *_inside(node, box, align))
    fill = color if node.kind is NodeKind.MATMUL else look.fill
    fill = Color.BACKGROUND if node.mark is Emphasis.WENT else fill
    look = replace(look, line=color, fill=fill, line_width=style.MARKED_WIDTH)
    parts = _inside(node, box, align)
    if look.outline is not Outline.SHARP and look.outline is not Outline.ROUNDED:
        parts = [_in_color(part, color) for part in parts]  # text on a fill stays as it reads best
    return (*frame(look, box, node.mark), *parts)


def frame(look: NodeStyle, box: Box, mark: Emphasis = Emphasis.NONE) -> tuple[DrawnShape, ...]:
    """Draw a node's frame: none for a tensor, dotted for a ghost."""
    outline = _outline(look, box)
    if outline is None:
        return ()
    if mark is Emphasis.WENT:
        return (DrawnShape(outline, look.fill, look.line, 1.0, DOTS),)
    return (DrawnShape(outline, look.fill, look.line, look.line_width),)


def _in_color(part: DrawnShape | DrawnText, color: Color) -> DrawnShape | DrawnText:
    """Return a text or a sign of a marked node in the color of its mark."""
    if isinstance(part, DrawnText):
        return replace(part, color=color if part.color is Color.INK else part.color)
    return replace(part, line=part.line and color, fill=part.fill and color)


def tags(text: DrawnText) -> Iterator[DrawnShape]:
    """Draw the frames of a line's tags."""
    for tag, left, right in text.line.tags():
        box = Box(
            text.x + left - style.TAG_PADDING,
            text.y - font.CAP_HEIGHT * style.TAG_SIZE - _TAG_ABOVE,
            text.x + right + style.TAG_PADDING,
            text.y + _TAG_BELOW,
        )
        line = Color.COMMUNICATION_LINE if tag == "forward" else Color.BACKWARD
        yield DrawnShape(rectangle(box, _TAG_ROUNDING), line=line, width=_TAG_LINE)


def text_in(
    lines: Iterable[TextLine], box: Box, color: Color = Color.INK, align: float = 0.5
) -> Iterator[DrawnText]:
    """Put lines of text into a box, one under the other, by the height of their capitals.

    Several lines are aligned at the left (0), at the right (1) or in between.
    """
    lines = tuple(lines)
    align = align if len(lines) > 1 else 0.5
    capitals = [max(font.CAP_HEIGHT * _size(line), 0.0) for line in lines]
    y = box.center[1] - (sum(capitals) + _TEXT_LEADING * (len(lines) - 1)) / 2
    for line, capital in zip(lines, capitals, strict=True):
        y += capital
        x = box.left + (box.width - line.width) * align
        yield DrawnText(line, x, y, color, align)
        y += _TEXT_LEADING


def boxed_text(lines: Iterable[TextLine], box: Box) -> Iterator[DrawnShape | DrawnText]:
    """Draw the text of a box, quiet below its first line, with the frames of its tags."""
    texts = enumerate(text_in(lines, box))
    return _frame_tags(replace(one, color=Color.MUTED if n else Color.INK) for n, one in texts)


def _size(line: TextLine) -> float:
    return line.spans[0].size if line.spans else 0.0


def _outline(look: NodeStyle, box: Box) -> DrawnPath | None:
    match look.outline:
        case Outline.NONE:
            return None
        case Outline.CIRCLE:
            # The line is inside the box, so that arrows touch its outer edge.
            return circle(box.center, box.width / 2 - look.line_width / 2)
        case Outline.SHARP:
            return rectangle(box.grown(-look.line_width / 2))
        case Outline.ROUNDED:
            return rectangle(box.grown(-look.line_width / 2), _ROUNDING)


def _inside(node: FigureNode, box: Box, align: float) -> Iterable[DrawnShape | DrawnText]:
    x, y = box.center
    match node.kind:
        case NodeKind.MATMUL:
            return ()
        case NodeKind.ADD:
            reach = _SIGN * box.width / 2
            bars = (((x - reach, y), (x + reach, y)), ((x, y - reach), (x, y + reach)))
            return [DrawnShape(polyline(bar), line=Color.INK, width=_SIGN_WIDTH) for bar in bars]
        case NodeKind.MUL:
            return (DrawnShape(circle(box.center, 0.2 * box.width / 2 + 0.6), fill=Color.INK),)
        case NodeKind.SAVED | NodeKind.NOTE:
            return _frame_tags(text_in(node_lines(node), box, Color.MUTED, align))
        case NodeKind.TENSOR:
            return _frame_tags(text_in(node_lines(node), box, Color.INK, align))
        case _:
            return boxed_text(node_lines(node), box)


def _frame_tags(lines: Iterable[DrawnText]) -> Iterator[DrawnShape | DrawnText]:
    for text in lines:
        yield text
        yield from tags(text)


# The legend: every glyph and every arrow that a figure uses, once, with its meaning.
#
# Boxes are explained by their letters: SM scale and mask, S softmax.


_NODE_WORDS: Final = {
    NodeKind.MATMUL: "matrix product",
    NodeKind.ADD: "sum",
    NodeKind.MUL: "elementwise product",
    NodeKind.REDUCE: "linear operator",
    NodeKind.NONLINEAR: "nonlinear operator",
    NodeKind.LAYOUT: "change of layout",
    NodeKind.COMMUNICATION: "communication",
    NodeKind.BLOCK: "block",
    NodeKind.SAVED: "saved in the forward pass",
}
_EDGE_WORDS: Final = {
    EdgeStyle.DOUBLE: "second operand of a product",
    EdgeStyle.DASHED: "gradients",
}
_EMPHASIS_WORDS: Final = {
    Emphasis.HIGHLIGHTED: "highlighted",
    Emphasis.CAME: "new",
    Emphasis.CHANGED: "changed",
    Emphasis.WENT: "gone",
}
_LETTERED: Final = (NodeKind.NONLINEAR, NodeKind.LAYOUT, NodeKind.COMMUNICATION, NodeKind.REDUCE)
_MOVE_WORDS: Final = {each.glyph: each.legend for each in COLLECTIVES.values() if each.legend}
_LEGEND_ROW: Final = 24.0
_LEGEND_LEADING: Final = 12.0  # from a line of a meaning to its next
_MARK_SIZE: Final = Extent(26.0, 14.0)
_MARK_GAP: Final = 6.0
_ENTRY_GAP: Final = 18.0


@dataclass(frozen=True, slots=True)
class Meaning:
    """A sign and its meaning in words; `letters` are inside of a box, a `symbol` is the sign."""

    kind: NodeKind | EdgeStyle | Emphasis
    words: str
    letters: str = ""
    symbol: RichText = ()


def meanings(figure: Figure) -> Iterator[Meaning]:
    """Yield what is in use, in a fixed order, with its meaning; without a legend only marks."""
    styles = {edge.style for edge in figure.edges} if figure.legend else ()
    for kind, family in _NODE_WORDS.items() if figure.legend else ():
        named = (_meaning_of(node, family) for node in figure.nodes if node.kind is kind)
        yield from dict.fromkeys(named)
    yield from _written_broadcast(figure) if figure.legend else ()
    for one in figure.explained if figure.legend else ():
        yield Meaning(one.kind, one.words, symbol=one.symbol)
    yield from (Meaning(kind, words) for kind, words in _EDGE_WORDS.items() if kind in styles)
    yield from (
        Meaning(mark, words) for mark, words in _EMPHASIS_WORDS.items() if mark in figure.marks
    )


def _written_broadcast(figure: Figure) -> Iterator[Meaning]:
    """Yield the meaning of BC where it is written beside a bias, and is no node."""
    texts = (node.label[:1] for node in figure.nodes if node.kind is NodeKind.TENSOR)
    for run in (run for text in texts for run in text if run.text == "BC" and not run.bold):
        yield Meaning(NodeKind.TENSOR, "broadcast: repeated along these axes", symbol=(run,))
        return


def _meaning_of(node: FigureNode, family: str) -> Meaning:
    """Return the meaning of a node: of a box with letters its operator, else its family."""
    letters = node.label[0].text.strip() if node.label else ""
    if node.kind in (NodeKind.COMMUNICATION, NodeKind.LAYOUT) and letters in _MOVE_WORDS:
        return Meaning(node.kind, _MOVE_WORDS[letters], letters)
    if node.kind not in _LETTERED or not node.title:
        return Meaning(node.kind, family)
    words = node.title.partition(":")[0].replace("scale_mask", "scale and mask").replace("_", " ")
    if words.lower() == letters.lower():
        return Meaning(node.kind, family, letters if node.kind is NodeKind.REDUCE else "")
    name = letters.removeprefix("d")
    words = words.removesuffix(name.lower()) + name if words.endswith(f" {name.lower()}") else words
    return Meaning(node.kind, words, letters)


def legend(figure: Figure, width: float) -> tuple[list[Element], Extent]:
    """Set the legend in rows no wider than `width`, its top left corner at the origin."""
    elements: list[Element] = []
    x = y = widest = 0.0
    for meaning in meanings(figure):
        left = _mark_width(meaning) + _MARK_GAP
        room = width - 2 * style.PAGE_MARGIN
        words = wrap_text(plain(meaning.words), style.SHAPE_SIZE, room - left)
        lines = [typeset(text, style.SHAPE_SIZE) for text in words]
        extent = left + max(line.width for line in lines)
        if x > 0 and (x + extent > room or len(lines) > 1):
            x, y = 0.0, y + _LEGEND_ROW
        mark = moved(Element("", "legend", "", tuple(_mark(meaning))), x, y + _LEGEND_ROW / 2)
        baseline = y + _LEGEND_ROW / 2 + font.CAP_HEIGHT * style.SHAPE_SIZE / 2
        texts = (
            DrawnText(line, x + left, baseline + number * _LEGEND_LEADING, Color.MUTED)
            for number, line in enumerate(lines)
        )
        elements.append(Element("", "legend", "", (*mark.parts, *texts)))
        widest = max(widest, x + extent)
        x = x + extent + _ENTRY_GAP if len(lines) == 1 else room
        y += (len(lines) - 1) * _LEGEND_LEADING
    return elements, Extent(widest, y + _LEGEND_ROW)


def _example(meaning: Meaning) -> FigureNode:
    assert isinstance(meaning.kind, NodeKind)
    return FigureNode("", meaning.kind, meaning.symbol or plain(meaning.letters))


def _mark_width(meaning: Meaning) -> float:
    has_text = meaning.letters or meaning.symbol
    return node_size(_example(meaning)).width if has_text else _MARK_SIZE.width


def _mark(meaning: Meaning) -> Iterator[DrawnShape | DrawnText]:
    """Draw a small example whose left middle is the origin."""
    kind = meaning.kind
    if isinstance(kind, EdgeStyle | Emphasis):
        edge, mark = (
            (EdgeStyle.SINGLE, kind) if isinstance(kind, Emphasis) else (kind, Emphasis.NONE)
        )
        yield from arrow(polyline(((0.0, 0.0), (_MARK_SIZE.width, 0.0))), edge, mark)
        return
    look = style.NODE_STYLES[kind]
    middle = (_MARK_SIZE.width / 2, 0.0)
    if look.outline is style.Outline.CIRCLE:
        yield from glyph(FigureNode("", kind), Box.around(middle, look.width, look.height))
    elif look.outline is style.Outline.NONE:
        node = FigureNode("", kind, meaning.symbol or plain("X"))
        width = node_size(node).width
        middle = (width / 2, 0.0) if meaning.symbol else middle
        yield from glyph(node, Box.around(middle, width, _MARK_SIZE.height))
    elif meaning.letters:
        width = _mark_width(meaning)
        box = Box.around((width / 2, 0.0), width, look.height)
        yield from glyph(_example(meaning), box)
    else:
        yield from frame(look, Box.around(middle, _MARK_SIZE.width, _MARK_SIZE.height))


# Find fonts of this machine for the characters that the bundled font lacks.
#
# PNG and PDF are drawn with the bundled font, so they are the same everywhere. If a text has
# other characters, such as Chinese or emoji, they come from a font of the machine. SVG and TikZ
# need none: their readers have fonts of their own.


_FOLDERS: Final = {
    "darwin": ("/System/Library/Fonts", "/Library/Fonts", "~/Library/Fonts"),
    "win32": ("C:/Windows/Fonts", "~/AppData/Local/Microsoft/Windows/Fonts"),
}
_USUAL_FOLDERS: Final = (
    *("/usr/share/fonts", "/usr/local/share/fonts"),
    *("~/.fonts", "~/.local/share/fonts"),
)
_ENDINGS: Final = (".ttf", ".ttc", ".otf", ".otc")
_SECONDS: Final = 10  # for fontconfig, which may build its cache
_RESTRICTED: Final = 2  # of the table OS/2: a font that must not be embedded
_COLLECTION: Final = b"ttcf"
REPLACEMENT: Final = "?"  # for a character that no font has
_NAMED: Final = 8  # characters in a warning


def missing_characters(display: Display) -> str:
    """Return the characters of a picture that the bundled font lacks, each once, in their order."""
    known = face().glyphs
    texts = (
        escape.clean(span.text)
        for element in display.elements
        for part in element.parts
        if isinstance(part, DrawnText)
        for span in part.line.spans
    )
    found = dict.fromkeys(one for text in texts for one in text if ord(one) not in known)
    # A separator, or a sign that joins others, has no outline.
    return "".join(one for one in found if category(one) not in ("Zs", "Zl", "Zp", "Cf", "Cc"))


@lru_cache(maxsize=64)  # the figures of a file have much the same characters
def find_faces(text: str, *, embeds: bool = False) -> tuple[Face, ...]:
    """Return the fewest faces of this machine that have a text's characters, or most of them.

    With `embeds`, a PDF may contain the fonts: they have TrueType outlines and allow embedding.
    """
    wanted = {ord(one) for one in text}
    faces: list[Face] = []
    for path in font_files() if wanted else ():
        for one in _faces_of(path, wanted, embeds=embeds):
            faces.append(one)
            wanted -= one.glyphs.keys()
        if not wanted:
            break
    return tuple(faces)


@cache
def font_files() -> tuple[Path, ...]:
    """Return the font files of this machine: upright fonts without serifs first."""
    found = sorted({path for path in _listed_files() if path.suffix.lower() in _ENDINGS})
    return tuple(sorted(found, key=_rank))


def _rank(path: Path) -> tuple[bool, bool]:
    name = path.stem.lower()
    is_odd = any(word in name for word in ("bold", "italic", "oblique", "mono", "light", "cond"))
    return is_odd, "sans" not in name


def _listed_files() -> Iterator[Path]:
    """Yield the files that fontconfig knows, or without it the files in the system's folders."""
    command = shutil.which("fc-list")
    if command is not None:
        try:
            listed = subprocess.run(
                (command, "--format", "%{file}\\n"),
                capture_output=True,
                timeout=_SECONDS,
                check=True,
            )
        except (OSError, subprocess.SubprocessError):
            pass
        else:
            yield from map(Path, listed.stdout.decode(errors="replace").splitlines())
            return
    for folder in _FOLDERS.get(sys.platform, _USUAL_FOLDERS):
        try:
            yield from Path(folder).expanduser().rglob("*")
        except (OSError, RuntimeError):  # a folder that may not be read, a user without a home
            continue


def _faces_of(path: Path, wanted: Iterable[int], *, embeds: bool) -> Iterator[Face]:
    """Yield the first face of a file that has wanted characters; a broken file has none."""
    try:
        data = path.read_bytes()
        start = unpack_from(">L", data, 12)[0] if data.startswith(_COLLECTION) else 0
        tables = table_places(data, start)
        glyphs = characters(data, tables, set(wanted))
        if not glyphs or (embeds and not _is_embeddable(data, tables)):
            return
        widths = advance_widths(data, tables)
        if max(glyphs.values()) >= len(widths):
            return
    except (OSError, error, KeyError, StopIteration, ValueError, ZeroDivisionError):
        return
    name = re.sub(r"[^A-Za-z0-9-]", "", path.stem)
    yield Face(name, path, data, tables, glyphs, widths)


def _is_embeddable(data: bytes, tables: dict[str, tuple[int, int]]) -> bool:
    if "glyf" not in tables or "loca" not in tables:
        return False
    if "OS/2" not in tables:
        return True
    return unpack_from(">H", data, tables["OS/2"][0] + 8)[0] & 0xF != _RESTRICTED


def lost_characters(display: Display, *, embeds: bool = False) -> str:
    """Return the characters of a picture that no font has: `REPLACEMENT` is drawn for them."""
    text = missing_characters(display)
    found = {code for one in find_faces(text, embeds=embeds) for code in one.glyphs}
    return "".join(one for one in text if ord(one) not in found)


def describe_lost(display: Display, format: Literal["png", "pdf"]) -> str:
    """Return a warning that names the characters that no font has, empty if there are none."""
    lost = lost_characters(display, embeds=format == "pdf")
    if not lost:
        return ""
    names = ", ".join(f"{one} (U+{ord(one):04X})" for one in lost[:_NAMED])
    more = f" and {len(lost) - _NAMED} others" if len(lost) > _NAMED else ""
    kind = "TrueType font" if format == "pdf" else "font"
    return (
        f"the {format.upper()} shows {REPLACEMENT} for {names}{more}, because no {kind} on this"
        f" machine has {'it' if len(lost) == 1 else 'them'}: install one that does, or write SVG"
    )
