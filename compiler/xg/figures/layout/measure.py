"""Measuring: how large each node and each edge's label is, in points."""

from __future__ import annotations

from typing import Final

from xg.diagnostics.lazy_dataclass import dataclass
from xg.figures.draw.typeset import TextLine, typeset
from xg.figures.model import style
from xg.figures.model.figure import FigureNode, NodeKind
from xg.figures.model.richtext import RichText

_WITHOUT_TEXT: Final = (NodeKind.MATMUL, NodeKind.ADD, NodeKind.MUL)
DETAIL_LEADING: Final = 3.0  # between a node's label and its second line


@dataclass(frozen=True, slots=True)
class Extent:
    """Width and height in points."""

    width: float
    height: float

    def turned(self) -> Extent:
        """Return the size with width and height exchanged."""
        return Extent(self.height, self.width)


def node_lines(node: FigureNode) -> tuple[TextLine, ...]:
    """Return the set lines inside a node: its label and quiet ones; none for • ⊕ ⊙ Σ."""
    if node.kind in _WITHOUT_TEXT:
        return ()
    if node.kind in (NodeKind.TENSOR, NodeKind.SAVED):
        label = typeset(node.label, style.TENSOR_SIZE, style.SHAPE_SIZE)
    else:
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
    return Extent(max(width, look.width), look.height + extra)


def edge_line(label: RichText) -> TextLine:
    """Return the set label of an edge."""
    return typeset(label, style.SYMBOL_SIZE, style.SHAPE_SIZE)


def pair_size(down: RichText, up: RichText, *, turned: bool) -> Extent:
    """Return the room of the labels at both sides of an arrow and its way back: one line."""
    sizes = [label_size(label, turned=turned) for label in (down, up) if label]
    half = max((size.width for size in sizes), default=0.0) + style.PAIR_GAP / 2
    return Extent(2 * half, max((size.height for size in sizes), default=style.SYMBOL_SIZE))


def label_size(label: RichText, *, turned: bool) -> Extent:
    """Return the room an edge's label takes beside its line, the gap to the line included.

    In a figure that will be `turned` its width is what will be the height below the line.
    """
    line = edge_line(label)
    if turned:
        return Extent(line.height + style.LABEL_GAP_BELOW, line.width + 2 * style.LABEL_GAP)
    return Extent(line.width + style.LABEL_GAP + 2.0, max(line.height, style.SYMBOL_SIZE))
