"""The legend: every glyph and every arrow that a figure uses, once, with its meaning."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from xg.figures.draw import font
from xg.figures.draw.arrow import arrow
from xg.figures.draw.display import DrawnShape, DrawnText, Element
from xg.figures.draw.glyph import frame, glyph
from xg.figures.draw.move import moved
from xg.figures.draw.typeset import typeset
from xg.figures.layout import measure
from xg.figures.layout.measure import Extent
from xg.figures.model import style
from xg.figures.model.figure import EdgeStyle, Figure, FigureNode, NodeKind
from xg.figures.model.geometry import Box, polyline
from xg.figures.model.richtext import plain
from xg.figures.model.style import Color

_NODES: Final = {
    NodeKind.MATMUL: "matrix product",
    NodeKind.ADD: "sum",
    NodeKind.MUL: "elementwise product",
    NodeKind.REDUCE: "sum over axes",
    NodeKind.NONLINEAR: "nonlinear operator",
    NodeKind.LAYOUT: "change of layout",
    NodeKind.COMMUNICATION: "communication",
    NodeKind.GRADIENT_COMMUNICATION: "communication of gradients",
    NodeKind.BLOCK: "block",
    NodeKind.SAVED: "saved in the forward pass",
}
_EDGES: Final = {
    EdgeStyle.DOUBLE: "second operand of a product",
    EdgeStyle.DASHED: "gradients",
}
_ROW: Final = 22.0
_MARK: Final = Extent(26.0, 14.0)
_GAP: Final = 6.0
_BETWEEN: Final = 18.0


def meanings(figure: Figure) -> Iterator[tuple[NodeKind | EdgeStyle, str]]:
    """Yield what is in use, in a fixed order, with its meaning."""
    kinds = {node.kind for node in figure.nodes}
    styles = {edge.style for edge in figure.edges}
    yield from ((kind, words) for kind, words in _NODES.items() if kind in kinds)
    yield from ((kind, words) for kind, words in _EDGES.items() if kind in styles)


def legend(figure: Figure, width: float) -> tuple[list[Element], Extent]:
    """Set the legend in rows no wider than `width`, its top left corner at the origin."""
    elements: list[Element] = []
    x = y = widest = 0.0
    for kind, words in meanings(figure):
        line = typeset(plain(words), style.SHAPE_SIZE)
        extent = _MARK.width + _GAP + line.width
        if x > 0 and x + extent > width - 2 * style.PAGE_MARGIN:
            x, y = 0.0, y + _ROW
        baseline = y + _ROW / 2 + font.CAP_HEIGHT * style.SHAPE_SIZE / 2
        text = DrawnText(line, x + _MARK.width + _GAP, baseline, Color.MUTED)
        mark = moved(Element("", "legend", "", tuple(_mark(kind))), x, y + _ROW / 2)
        elements.append(Element("", "legend", "", (*mark.parts, text)))
        widest = max(widest, x + extent)
        x += extent + _BETWEEN
    return elements, Extent(widest, y + _ROW)


def _mark(kind: NodeKind | EdgeStyle) -> Iterator[DrawnShape | DrawnText]:
    """Draw a small example whose left middle is the origin."""
    if isinstance(kind, EdgeStyle):
        yield from arrow(polyline(((0.0, 0.0), (_MARK.width, 0.0))), kind)
        return
    look = style.NODE_STYLES[kind]
    middle = (_MARK.width / 2, 0.0)
    if look.outline is style.Outline.CIRCLE:
        yield from glyph(FigureNode("", kind), Box.around(middle, look.width, look.height))
    elif look.outline is style.Outline.NONE:
        node = FigureNode("", kind, plain("X"))
        yield from glyph(node, Box.around(middle, measure.node_size(node).width, _MARK.height))
    else:
        yield from frame(look, Box.around(middle, _MARK.width, _MARK.height))
