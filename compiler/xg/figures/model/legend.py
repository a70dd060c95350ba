"""The legend: every glyph and every arrow that a figure uses, once, with its meaning.

Boxes are explained by their letters: SM scale and mask, S softmax.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from xg.diagnostics.lazy_dataclass import dataclass
from xg.figures.draw import font
from xg.figures.draw.arrow import arrow
from xg.figures.draw.display import DrawnShape, DrawnText, Element
from xg.figures.draw.glyph import frame, glyph
from xg.figures.draw.move import moved
from xg.figures.draw.typeset import typeset, wrapped
from xg.figures.layout import measure
from xg.figures.layout.measure import Extent
from xg.figures.model import style
from xg.figures.model.figure import EdgeStyle, Emphasis, Figure, FigureNode, NodeKind
from xg.figures.model.geometry import Box, polyline
from xg.figures.model.richtext import RichText, plain
from xg.figures.model.style import Color

_NODES: Final = {
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
_EDGES: Final = {
    EdgeStyle.DOUBLE: "second operand of a product",
    EdgeStyle.DASHED: "gradients",
}
_MARKS: Final = {
    Emphasis.HIGHLIGHTED: "highlighted",
    Emphasis.CAME: "new",
    Emphasis.CHANGED: "changed",
    Emphasis.WENT: "gone",
}
_LETTERED: Final = (
    NodeKind.NONLINEAR,
    NodeKind.LAYOUT,
    NodeKind.COMMUNICATION,
    NodeKind.REDUCE,
)
_MOVES: Final = {
    "AR": "all-reduce: the sum over ranks",
    "RS": "reduce-scatter: a rank's part of the sum over ranks",
    "AG": "all-gather",
    "A2A": "all-to-all",
    "cast": "what all ranks hold, used by each for a part",
    "part": "a rank's part of what all hold",
    "spread": "a part as a term of a sum: zeros around it",
    "once": "a term of a sum: zeros but on one rank",
}
_ROW: Final = 24.0
_LEADING: Final = 12.0  # from a line of a meaning to its next
_MARK: Final = Extent(26.0, 14.0)
_GAP: Final = 6.0
_BETWEEN: Final = 18.0


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
    for kind, family in _NODES.items() if figure.legend else ():
        named = (_named(node, family) for node in figure.nodes if node.kind is kind)
        yield from dict.fromkeys(named)
    yield from _written_broadcast(figure) if figure.legend else ()
    for one in figure.explained if figure.legend else ():
        yield Meaning(one.kind, one.words, symbol=one.symbol)
    yield from (Meaning(kind, words) for kind, words in _EDGES.items() if kind in styles)
    yield from (Meaning(mark, words) for mark, words in _MARKS.items() if mark in figure.marks)


def _written_broadcast(figure: Figure) -> Iterator[Meaning]:
    """Yield the meaning of BC where it is written beside a bias, and is no node."""
    texts = (node.label[:1] for node in figure.nodes if node.kind is NodeKind.TENSOR)
    for run in (run for text in texts for run in text if run.text == "BC" and not run.bold):
        yield Meaning(NodeKind.TENSOR, "broadcast: repeated along these axes", symbol=(run,))
        return


def _named(node: FigureNode, family: str) -> Meaning:
    """Return the meaning of a node: of a box with letters its operator, else its family."""
    letters = node.label[0].text.strip() if node.label else ""
    if node.kind in (NodeKind.COMMUNICATION, NodeKind.LAYOUT) and letters in _MOVES:
        return Meaning(node.kind, _MOVES[letters], letters)
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
        left = _mark_width(meaning) + _GAP
        room = width - 2 * style.PAGE_MARGIN
        words = wrapped(plain(meaning.words), style.SHAPE_SIZE, room - left)
        lines = [typeset(text, style.SHAPE_SIZE) for text in words]
        extent = left + max(line.width for line in lines)
        if x > 0 and (x + extent > room or len(lines) > 1):
            x, y = 0.0, y + _ROW
        mark = moved(Element("", "legend", "", tuple(_mark(meaning))), x, y + _ROW / 2)
        baseline = y + _ROW / 2 + font.CAP_HEIGHT * style.SHAPE_SIZE / 2
        texts = (
            DrawnText(line, x + left, baseline + number * _LEADING, Color.MUTED)
            for number, line in enumerate(lines)
        )
        elements.append(Element("", "legend", "", (*mark.parts, *texts)))
        widest = max(widest, x + extent)
        x = x + extent + _BETWEEN if len(lines) == 1 else room
        y += (len(lines) - 1) * _LEADING
    return elements, Extent(widest, y + _ROW)


def _example(meaning: Meaning) -> FigureNode:
    assert isinstance(meaning.kind, NodeKind)
    return FigureNode("", meaning.kind, meaning.symbol or plain(meaning.letters))


def _mark_width(meaning: Meaning) -> float:
    has_text = meaning.letters or meaning.symbol
    return measure.node_size(_example(meaning)).width if has_text else _MARK.width


def _mark(meaning: Meaning) -> Iterator[DrawnShape | DrawnText]:
    """Draw a small example whose left middle is the origin."""
    kind = meaning.kind
    if isinstance(kind, EdgeStyle | Emphasis):
        edge, mark = (
            (EdgeStyle.SINGLE, kind) if isinstance(kind, Emphasis) else (kind, Emphasis.NONE)
        )
        yield from arrow(polyline(((0.0, 0.0), (_MARK.width, 0.0))), edge, mark)
        return
    look = style.NODE_STYLES[kind]
    middle = (_MARK.width / 2, 0.0)
    if look.outline is style.Outline.CIRCLE:
        yield from glyph(FigureNode("", kind), Box.around(middle, look.width, look.height))
    elif look.outline is style.Outline.NONE:
        node = FigureNode("", kind, meaning.symbol or plain("X"))
        width = measure.node_size(node).width
        middle = (width / 2, 0.0) if meaning.symbol else middle
        yield from glyph(node, Box.around(middle, width, _MARK.height))
    elif meaning.letters:
        width = _mark_width(meaning)
        box = Box.around((width / 2, 0.0), width, look.height)
        yield from glyph(_example(meaning), box)
    else:
        yield from frame(look, Box.around(middle, _MARK.width, _MARK.height))
