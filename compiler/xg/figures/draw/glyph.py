"""Glyphs: the shapes of a node of each kind, drawn into its box."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Final

from xg.figures.draw import font
from xg.figures.draw.arrow import DOTS
from xg.figures.draw.display import DrawnShape, DrawnText
from xg.figures.draw.typeset import TextLine
from xg.figures.layout import measure
from xg.figures.model import style
from xg.figures.model.figure import Emphasis, FigureNode, NodeKind
from xg.figures.model.geometry import Box, DrawnPath, circle, polyline, rectangle
from xg.figures.model.style import Color, NodeStyle, Outline

_ROUNDING: Final = 6.0
_SIGN: Final = 0.56  # reach of ⊕'s strokes, of the radius
_SIGN_WIDTH: Final = 1.15
_TAG_ABOVE: Final = 2.2  # between a tag's capitals and its frame
_TAG_BELOW: Final = 3.0
_TAG_ROUNDING: Final = 2.6
_TAG_LINE: Final = 0.8


def glyph(node: FigureNode, box: Box) -> tuple[DrawnShape | DrawnText, ...]:
    """Draw a node: its frame, then its contents."""
    look = style.NODE_STYLES[node.kind]
    color = style.MARKS.get(node.mark)
    if color is None:
        return (*frame(look, box), *_inside(node, box))
    fill = color if node.kind is NodeKind.MATMUL else look.fill
    fill = Color.BACKGROUND if node.mark is Emphasis.WENT else fill
    look = replace(look, line=color, fill=fill, line_width=style.MARKED_WIDTH)
    parts = _inside(node, box)
    if look.outline is not Outline.SHARP and look.outline is not Outline.ROUNDED:
        parts = [_in_color(part, color) for part in parts]  # text on a fill stays as it reads best
    return (*frame(look, box, node.mark), *parts)


def frame(look: NodeStyle, box: Box, mark: Emphasis = Emphasis.NONE) -> tuple[DrawnShape, ...]:
    """Draw a node's frame; tensors have none, and that of a ghost is dotted."""
    outline = _outline(look, box)
    if outline is None:
        return ()
    if mark is Emphasis.WENT:
        return (DrawnShape(outline, look.fill, look.line, 1.0, DOTS),)
    return (DrawnShape(outline, look.fill, look.line, look.line_width),)


def _in_color(part: DrawnShape | DrawnText, color: Color) -> DrawnShape | DrawnText:
    """Return a text or a sign of a marked node in the colour of its mark."""
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


def text_in(lines: Iterable[TextLine], box: Box, color: Color = Color.INK) -> Iterator[DrawnText]:
    """Centre lines of text in a box, one under the other, by the height of their capitals."""
    lines = tuple(lines)
    capitals = [max(font.CAP_HEIGHT * _size(line), 0.0) for line in lines]
    leading = measure.DETAIL_LEADING + 2.5
    y = box.center[1] - (sum(capitals) + leading * (len(lines) - 1)) / 2
    for line, capital in zip(lines, capitals, strict=True):
        y += capital
        yield DrawnText(line, box.center[0] - line.width / 2, y, color, 0.5)
        y += leading


def boxed_text(lines: Iterable[TextLine], box: Box) -> Iterator[DrawnShape | DrawnText]:
    """Draw the text of a box, quiet below its first line, with the frames of its tags."""
    texts = enumerate(text_in(lines, box))
    return _framed(replace(one, color=Color.MUTED if n else Color.INK) for n, one in texts)


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


def _inside(node: FigureNode, box: Box) -> Iterable[DrawnShape | DrawnText]:
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
            return _framed(text_in(measure.node_lines(node), box, Color.MUTED))
        case _:
            return boxed_text(measure.node_lines(node), box)


def _framed(lines: Iterable[DrawnText]) -> Iterator[DrawnShape | DrawnText]:
    for text in lines:
        yield text
        yield from tags(text)
