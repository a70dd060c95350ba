"""Define figures as data: nodes, edges, groups and bars, without positions and colors.

A figure is a graph in the notation of seed 001, section 4. A node's kind decides its shape, an
edge's style its meaning (single, double, dashed), and its role its route: down a column, from one
column to the next, into a node from beside, or around in a lane.
"""

from __future__ import annotations

from enum import Enum, auto
from math import ceil
from typing import Final

from xg.diagnostics.lazy_dataclass import dataclass
from xg.figures.model.richtext import RichText


class NodeKind(Enum):
    """The kind of a node; its shape and colour follow."""

    MATMUL = auto()  # a filled dot
    ADD = auto()  # ⊕
    MUL = auto()  # ⊙
    NONLINEAR = auto()  # a yellow rectangle: LN, S, SM, DO, GELU, CE, Emb
    LAYOUT = auto()  # a rounded grey box: R, T, C, BC, a slice
    REDUCE = auto()  # a rounded white box: Σ over axes, and sums of weighed terms by their names
    COMMUNICATION = auto()  # a bold blue box: AR, AG
    BLOCK = auto()  # a called block, a repeated block
    TENSOR = auto()  # an input, an output, a parameter: text without a frame
    SAVED = auto()  # a forward value kept for the backward: quiet text without a frame
    NOTE = auto()  # words of the author beside a node: text without a frame


class EdgeStyle(Enum):
    """The meaning of an arrow (seed 001, section 4.4)."""

    SINGLE = auto()
    DOUBLE = auto()  # the second operand of a matmul
    DASHED = auto()  # gradients in an overview; drawn from tail to head like any other
    NOTE = auto()  # from a note to its node, without a head


class EdgeRole(Enum):
    """Where an arrow runs."""

    MAIN = auto()  # straight down its column
    BRANCH = auto()  # from a node to the top of another column
    SIDE = auto()  # into a node from beside
    RESIDUAL = auto()  # past many nodes, in a lane at the left


class Emphasis(Enum):
    """Why a node or an edge has a colour of its own: its author wants it, or it changed."""

    NONE = auto()
    HIGHLIGHTED = auto()
    CHANGED = auto()
    CAME = auto()
    WENT = auto()  # a ghost: it is in the first of two programs only


@dataclass(frozen=True, slots=True)
class FigureNode:
    """One glyph. `id` is unique and stable: it becomes the `data-op` of the drawn element."""

    id: str
    kind: NodeKind
    label: RichText = ()
    detail: RichText = ()  # a quiet second line: a block's × N_L, what a node is made of
    title: str = ""  # what a viewer shows on hovering, and what a screen reader reads
    mark: Emphasis = Emphasis.NONE
    lines: tuple[RichText, ...] = ()  # more quiet lines: a collective's cost


@dataclass(frozen=True, slots=True)
class FigureEdge:
    """One arrow, with the tensor that it carries as its label.

    `output` is which of its tail's outputs it carries: only one and the same may look like one
    line that branches. A dashed one has that of the arrow beside which it runs back. A label that
    `repeats` what another arrow says of the value is drawn where there is room for it. One that
    `passes` its head, a bar that leaves its value as it is, goes on behind it and has no head.
    `name` is in front of the label where there is room.
    """

    tail: str
    head: str
    style: EdgeStyle = EdgeStyle.SINGLE
    role: EdgeRole = EdgeRole.MAIN
    label: RichText = ()
    mark: Emphasis = Emphasis.NONE
    output: int = 0
    repeats: bool = False
    passes: bool = False
    name: RichText = ()

    @property
    def text(self) -> RichText:
        """Its whole label, as far as there is room for it."""
        return (*self.name, *self.label)

    @property
    def is_back(self) -> bool:
        """Whether it carries a gradient beside the arrow of the value."""
        return self.style is EdgeStyle.DASHED

    @property
    def value(self) -> tuple[str, str | int]:
        """Return the key of the value that it carries."""
        return self.tail, f"{self.output} of {self.head}" if self.is_back else self.output


@dataclass(frozen=True, slots=True)
class FigureGroup:
    """A rounded lane behind some nodes: × N_H, GPU 0.

    One of an axis is left out where edges would cross to make room for it.
    """

    id: str
    label: RichText
    nodes: tuple[str, ...]
    mark: Emphasis = Emphasis.NONE
    is_axis: bool = False


class BarPlace(Enum):
    """Where a bar is: between rows of the columns, or outside, for what tags in them name."""

    BETWEEN = auto()
    ABOVE = auto()
    BELOW = auto()


@dataclass(frozen=True, slots=True)
class FigureBar:
    """A collective across columns, whose node it widens; each of `spans` is one bar.

    A span is the first and the last of its columns.
    """

    node: FigureNode
    spans: tuple[tuple[int, int], ...]
    where: BarPlace = BarPlace.BETWEEN


@dataclass(frozen=True, slots=True)
class FigureColumn:
    """One rank's column beside the others: the same nodes and edges under labels of its own."""

    heading: RichText
    nodes: tuple[FigureNode, ...]
    edges: tuple[FigureEdge, ...]


@dataclass(frozen=True, slots=True)
class FigureBrace:
    """A brace at the left of some rows: what they repeat, × N_L, or the block that they are."""

    label: RichText
    nodes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ExplainedSymbol:
    """A symbol that no file has, of what a node keeps or with a number, in a legend's words."""

    kind: NodeKind
    symbol: RichText
    words: str


@dataclass(frozen=True, slots=True)
class Figure:
    """A whole figure. Nodes and edges are in the order of the program they show.

    One of ranks side by side is drawn from its columns and bars; its nodes and edges are those of
    all of them together.
    """

    title: str
    subtitle: str
    description: str  # one or two sentences for those who cannot see it
    nodes: tuple[FigureNode, ...]
    edges: tuple[FigureEdge, ...]
    groups: tuple[FigureGroup, ...] = ()
    legend: bool = False
    columns: tuple[FigureColumn, ...] = ()
    bars: tuple[FigureBar, ...] = ()
    braces: tuple[FigureBrace, ...] = ()
    lanes: tuple[FigureGroup, ...] = ()  # in every column, under the ids of its nodes
    levels: tuple[str, ...] = ()  # nodes with a row of their own: before them above, else below
    has_heading: bool = True  # whether the title is drawn above
    width: float = 0.0  # of the page, in points; 0: as wide as its contents
    rightward: bool = False  # whether it is drawn from left to right, not from the top down
    explained: tuple[ExplainedSymbol, ...] = ()  # by the legend

    def __repr__(self) -> str:
        counts = f"{len(self.nodes)} nodes, {len(self.edges)} edges"
        return f"<Figure {self.title}, {self.subtitle}: {counts}>"

    @property
    def marks(self) -> frozenset[Emphasis]:
        """The marks of its nodes, edges and groups."""
        columns = (one for column in self.columns for one in (*column.nodes, *column.edges))
        return frozenset(one.mark for one in (*self.nodes, *self.edges, *self.groups, *columns)) - {
            Emphasis.NONE
        }

    @property
    def has_key(self) -> bool:
        """Whether signs are explained below: all of them, or those of a difference."""
        return self.legend or bool(self.marks - {Emphasis.HIGHLIGHTED})


# The refusals of a page that a figure cannot be drawn on so that it is read.


LEAST_SIZE: Final = 6.0  # points: smaller text is not read on paper


class TooNarrow(ValueError):
    """A page on which a figure's text would be too small; `inches` is a width that would do."""

    def __init__(self, title: str, least: float) -> None:
        super().__init__(f"text in {title} would be smaller than {LEAST_SIZE:g} points")
        self.inches = ceil(least / 72 * 10) / 10


class NotTurned(ValueError):
    """Ranks side by side, from left to right: their bars would be upright, their text too."""

    def __init__(self, title: str) -> None:
        super().__init__(f"ranks side by side run from the top down in {title}")
