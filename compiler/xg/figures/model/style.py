"""Sizes and colours of figures: the only place where either is a number.

Communication is Okabe and Ito's blue and a backward arrow their vermillion; kinds also differ in
shape, so a greyscale print and a colour-blind reader lose nothing.
"""

from enum import StrEnum
from types import MappingProxyType
from typing import Final

from xg.diagnostics.lazy_dataclass import dataclass
from xg.figures.model.figure import Emphasis, NodeKind

# Sizes, in points.
TITLE_SIZE: Final = 14.0
GLYPH_SIZE: Final = 10.5
TENSOR_SIZE: Final = 12.0
SYMBOL_SIZE: Final = 10.0
SHAPE_SIZE: Final = 9.0
DETAIL_SIZE: Final = 8.5
GROUP_SIZE: Final = 9.5
TAG_SIZE: Final = 7.5
TAG_PADDING: Final = 2.8  # between a tag's text and its frame, at the sides
LINE_WIDTH: Final = 1.05
MARKED_WIDTH: Final = 1.9
DOUBLE_GAP: Final = 2.9  # between the centres of a double arrow's two lines
ARROW_LENGTH: Final = 7.0
ARROW_WIDTH: Final = 5.0
CORNER: Final = 9.0  # radius of an edge's bends
NODE_GAP: Final = 24.0  # between neighbours in a row, hence the length of a weight's arrow
ROW_GAP: Final = 7.5  # between half rows: nodes are in even rows, labels in odd ones
LABEL_GAP: Final = 4.5  # between a line and the text beside it
LABEL_GAP_BELOW: Final = 4.0  # between a level line and the text below it
TEXT_GAP: Final = 3.0  # between a tensor's text and a line that begins or ends there
RAIL_GAP: Final = 8.0  # between lines that leave or enter a node at one side
LANE_GAP: Final = 14.0  # between a lane and what it passes
PAIR_GAP: Final = 7.0  # between an arrow and the gradient's arrow beside it
PAGE_MARGIN: Final = 16.0
NARROW_MARGIN: Final = 4.0  # of a page of a given width
LEAST_LEGEND_WIDTH: Final = 300.0
GROUP_PADDING: Final = 12.0
GROUP_HEADING: Final = 11.0  # more at the top, for the label

DOT_SIZE: Final = 12.0
CIRCLE_SIZE: Final = 18.0
BOX_HEIGHT: Final = 20.0
BOX_PADDING: Final = 7.0


class Color(StrEnum):
    """The use of a colour; a theme says which colour that is."""

    BACKGROUND = "background"
    INK = "ink"
    MUTED = "muted"
    LANE = "lane"
    NONLINEAR = "nonlinear"
    NONLINEAR_LINE = "nonlinear-line"
    LAYOUT = "layout"
    LAYOUT_LINE = "layout-line"
    COMMUNICATION = "communication"
    COMMUNICATION_LINE = "communication-line"
    BLOCK = "block"
    BLOCK_LINE = "block-line"
    BACKWARD = "backward"
    HIGHLIGHT = "highlight"  # and what changed from one program to another
    CAME = "came"


@dataclass(frozen=True, slots=True)
class Theme:
    """A name and a colour for every use."""

    name: str
    colors: MappingProxyType[Color, str]


_COLORS: Final = {  # of each use: in light, in dark, in print
    Color.BACKGROUND: ("#FFFFFF", "#14181F", "#FFFFFF"),
    Color.INK: ("#1F2933", "#E6EAF0", "#000000"),
    Color.MUTED: ("#5A6672", "#B4BECA", "#404040"),
    Color.LANE: ("#F3F5F9", "#1B212B", "#F2F2F2"),
    Color.NONLINEAR: ("#FFE082", "#5E490E", "#DCDCDC"),
    Color.NONLINEAR_LINE: ("#B58105", "#FFD454", "#000000"),
    Color.LAYOUT: ("#E4E9F0", "#2A323D", "#FFFFFF"),
    Color.LAYOUT_LINE: ("#7B8794", "#8592A3", "#595959"),
    Color.COMMUNICATION: ("#CDE6F7", "#12405C", "#C4C4C4"),
    Color.COMMUNICATION_LINE: ("#0072B2", "#56B4E9", "#000000"),
    Color.BLOCK: ("#FFFFFF", "#1D242E", "#FFFFFF"),
    Color.BLOCK_LINE: ("#1F2933", "#E6EAF0", "#000000"),
    Color.BACKWARD: ("#D55E00", "#F08A3C", "#595959"),
    Color.HIGHLIGHT: ("#8A2C9B", "#D99BEA", "#000000"),
    Color.CAME: ("#00795A", "#45C9A0", "#000000"),
}
LIGHT, DARK, PRINT = (
    Theme(name, MappingProxyType({color: _COLORS[color][place] for color in Color}))
    for place, name in enumerate(("light", "dark", "print"))
)
MARKS: Final = MappingProxyType(
    {
        Emphasis.HIGHLIGHTED: Color.HIGHLIGHT,
        Emphasis.CHANGED: Color.HIGHLIGHT,
        Emphasis.CAME: Color.CAME,
        Emphasis.WENT: Color.MUTED,
    }
)
OF_MARKS: Final = (Color.HIGHLIGHT, Color.CAME)
THEMES: Final = MappingProxyType({theme.name: theme for theme in (LIGHT, DARK, PRINT)})


class Outline(StrEnum):
    """The shape of a node's frame."""

    NONE = "none"
    CIRCLE = "circle"
    SHARP = "sharp"
    ROUNDED = "rounded"


@dataclass(frozen=True, slots=True)
class NodeStyle:
    """How a kind of node looks: its frame, its colours and its least size."""

    outline: Outline
    width: float
    height: float
    fill: Color = Color.BACKGROUND
    line: Color = Color.INK
    line_width: float = 1.0


NODE_STYLES: Final = MappingProxyType(
    {
        NodeKind.MATMUL: NodeStyle(Outline.CIRCLE, DOT_SIZE, DOT_SIZE, fill=Color.INK),
        NodeKind.ADD: NodeStyle(Outline.CIRCLE, CIRCLE_SIZE, CIRCLE_SIZE, line_width=1.2),
        NodeKind.MUL: NodeStyle(Outline.CIRCLE, CIRCLE_SIZE, CIRCLE_SIZE, line_width=1.2),
        NodeKind.REDUCE: NodeStyle(Outline.ROUNDED, CIRCLE_SIZE, CIRCLE_SIZE, line_width=1.2),
        NodeKind.NONLINEAR: NodeStyle(
            Outline.SHARP, 39.0, BOX_HEIGHT, Color.NONLINEAR, Color.NONLINEAR_LINE
        ),
        NodeKind.LAYOUT: NodeStyle(
            Outline.ROUNDED, 31.0, BOX_HEIGHT, Color.LAYOUT, Color.LAYOUT_LINE
        ),
        NodeKind.COMMUNICATION: NodeStyle(
            Outline.ROUNDED, 39.0, BOX_HEIGHT, Color.COMMUNICATION, Color.COMMUNICATION_LINE, 1.4
        ),
        NodeKind.BLOCK: NodeStyle(Outline.ROUNDED, 92.0, 26.0, Color.BLOCK, Color.BLOCK_LINE, 1.1),
        NodeKind.TENSOR: NodeStyle(Outline.NONE, 6.0, 17.0),
        NodeKind.SAVED: NodeStyle(Outline.NONE, 6.0, 17.0),
        NodeKind.NOTE: NodeStyle(Outline.NONE, 6.0, 17.0),
    }
)
