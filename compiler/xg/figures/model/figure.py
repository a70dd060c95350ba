"""Define figures as data: nodes, edges, groups and bars, without positions and colors.

A figure is a graph in the notation of seed 001, section 4. A node's kind decides its shape, an
edge's style its meaning (single, double, dashed), and its role its route: down a column, from one
column to the next, into a node from beside, or around in a lane.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from enum import Enum, StrEnum, auto
from functools import lru_cache
from itertools import pairwise
from math import ceil, hypot
from types import MappingProxyType
from typing import Final

from xg.diagnostics.lazy_dataclass import dataclass
from xg.figures.model.richtext import RichText


class NodeKind(Enum):
    """The kind of a node; its shape and color follow."""

    MATMUL = auto()  # a filled dot
    ADD = auto()  # ⊕
    MUL = auto()  # ⊙
    NONLINEAR = auto()  # a yellow rectangle: LN, S, SM, DO, GELU, CE, Emb
    LAYOUT = auto()  # a rounded gray box: R, T, C, BC, a slice
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
    ASIDE = auto()  # out to a result beside a node


class Emphasis(Enum):
    """Why a node or an edge has a color of its own: its author wants it, or it changed."""

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
    """A rounded lane under some nodes: × N_H, GPU 0.

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
    height: float = 0.0  # of the page; what is longer is broken into columns
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
    """A page on which a figure's text would be too small.

    `inches` is a width that would do, or if it `is_low`, a height.
    """

    def __init__(self, title: str, least: float, *, is_low: bool = False) -> None:
        super().__init__(f"text in {title} would be smaller than {LEAST_SIZE:g} points")
        self.inches = ceil(least / 72 * 10) / 10
        self.is_low = is_low


class NotTurned(ValueError):
    """Ranks side by side, from left to right: their bars would be upright, their text too."""

    def __init__(self, title: str) -> None:
        super().__init__(f"ranks side by side run from the top down in {title}")


# Sizes and colors of figures: the only place where either is a number.
#
# Communication is Okabe and Ito's blue and a backward arrow their vermillion; kinds also differ in
# shape, so a grayscale print and a color-blind reader lose nothing.


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
DOUBLE_GAP: Final = 2.9  # between the centers of a double arrow's two lines
ARROW_LENGTH: Final = 7.0
ARROW_WIDTH: Final = 5.0
CORNER: Final = 9.0  # radius of an edge's bends
NODE_GAP: Final = 24.0  # between neighbors in a row, hence the length of a weight's arrow
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
HEADING: Final = 32.0  # for a title of one line
GROUP_PADDING: Final = 12.0
GROUP_HEADING: Final = 11.0  # more at the top, for the label

DOT_SIZE: Final = 12.0
CIRCLE_SIZE: Final = 18.0
BOX_HEIGHT: Final = 20.0
BOX_PADDING: Final = 7.0


class Color(StrEnum):
    """The use of a color; a theme says which color that is."""

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
    """A name and a color for every use."""

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
    """How a kind of node looks: its frame, its colors and its least size."""

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


# Plane geometry of figures: boxes and paths, in points, y growing downwards.


Point = tuple[float, float]
_QUARTER: Final = 0.5523  # control distance of a quarter circle of radius 1


@dataclass(frozen=True, slots=True)
class Box:
    """An axis-parallel rectangle."""

    left: float
    top: float
    right: float
    bottom: float

    @classmethod
    def around(cls, center: Point, width: float, height: float) -> Box:
        """Return the box of that size around a point."""
        x, y = center
        return cls(x - width / 2, y - height / 2, x + width / 2, y + height / 2)

    @classmethod
    def between(cls, a: Point, b: Point) -> Box:
        """Return the box whose opposite corners are two points."""
        (x, y), (u, v) = a, b
        return cls(min(x, u), min(y, v), max(x, u), max(y, v))

    @property
    def center(self) -> Point:
        """Return the middle of the box."""
        return (self.left + self.right) / 2, (self.top + self.bottom) / 2

    @property
    def width(self) -> float:
        """Return the horizontal extent."""
        return self.right - self.left

    @property
    def height(self) -> float:
        """Return the vertical extent."""
        return self.bottom - self.top

    def grown(self, by: float) -> Box:
        """Return the box with every side moved outwards."""
        return Box(self.left - by, self.top - by, self.right + by, self.bottom + by)

    def moved(self, dx: float, dy: float) -> Box:
        """Return the box shifted."""
        return Box(self.left + dx, self.top + dy, self.right + dx, self.bottom + dy)

    def transpose(self) -> Box:
        """Return the box with x and y exchanged."""
        return Box(self.top, self.left, self.bottom, self.right)

    def overlaps(self, other: Box) -> bool:
        """Return whether the two share more than an edge."""
        return (
            self.left < other.right
            and other.left < self.right
            and self.top < other.bottom
            and other.top < self.bottom
        )


def bounding_box(boxes: Iterable[Box]) -> Box:
    """Return the smallest box around all; there is at least one."""
    lefts, tops, rights, bottoms = zip(
        *((b.left, b.top, b.right, b.bottom) for b in boxes), strict=True
    )
    return Box(min(lefts), min(tops), max(rights), max(bottoms))


@dataclass(frozen=True, slots=True)
class Curve:
    """A cubic Bézier segment, from the current point; a straight line has no controls."""

    end: Point
    controls: tuple[Point, Point] | None = None


@dataclass(frozen=True, slots=True)
class DrawnPath:
    """A start and segments, open or closed."""

    start: Point
    segments: tuple[Curve, ...]
    closed: bool = False

    @property
    def end(self) -> Point:
        """Return where the path ends."""
        return self.segments[-1].end if self.segments else self.start

    def points(self) -> Iterable[Point]:
        """Yield every point that the path is made of, controls included: its hull."""
        yield self.start
        for segment in self.segments:
            yield from segment.controls or ()
            yield segment.end

    def bounds(self) -> Box:
        """Return a box that holds the path."""
        xs, ys = zip(*self.points(), strict=True)
        return Box(min(xs), min(ys), max(xs), max(ys))

    def mapped(self, move: Callable[[Point], Point]) -> DrawnPath:
        """Return the path with every point moved."""
        segments = (
            Curve(move(one.end), one.controls and (move(one.controls[0]), move(one.controls[1])))
            for one in self.segments
        )
        return DrawnPath(move(self.start), tuple(segments), self.closed)


def polyline(points: Sequence[Point], *, closed: bool = False) -> DrawnPath:
    """Return straight lines through the points."""
    return DrawnPath(points[0], tuple(Curve(point) for point in points[1:]), closed)


def rounded(
    points: Sequence[Point], radius: float, straight: tuple[float, float] = (0.0, 0.0)
) -> DrawnPath:
    """Return lines through the points with round corners, smaller where a line is short.

    At the start and at the end so much is `straight`: an arrow's head.
    """
    segments: list[Curve] = []
    lengths = [_distance(a, b) for a, b in pairwise(points)]
    room = [length / 2 for length in lengths]
    for end, head in zip((0, -1), straight, strict=True) if len(lengths) > 1 else ():
        room[end] = max(lengths[end] - head, lengths[end] / 4)
    for place, (before, corner, after) in enumerate(
        zip(points, points[1:], points[2:], strict=False)
    ):
        reach = min(radius, room[place], room[place + 1])
        enter, leave = _towards(corner, before, reach), _towards(corner, after, reach)
        rest = reach * (1 - _QUARTER)
        controls = (_towards(corner, before, rest), _towards(corner, after, rest))
        segments += [Curve(enter), Curve(leave, controls)]
    segments.append(Curve(points[-1]))
    return DrawnPath(points[0], tuple(segments))


def backward(path: DrawnPath) -> DrawnPath:
    """Return a path from its end to its start."""
    starts = [path.start, *(segment.end for segment in path.segments)]
    segments = (
        Curve(start, segment.controls and (segment.controls[1], segment.controls[0]))
        for start, segment in zip(reversed(starts[:-1]), reversed(path.segments), strict=True)
    )
    return DrawnPath(path.end, tuple(segments), path.closed)


def rectangle(box: Box, radius: float = 0.0) -> DrawnPath:
    """Return the outline of a box, its corners rounded by `radius`."""
    if radius <= 0:
        corners = ((box.left, box.top), (box.right, box.top),
                   (box.right, box.bottom), (box.left, box.bottom))  # fmt: skip
        return polyline(corners, closed=True)
    middle = (box.left + box.right) / 2, box.top
    outline = rounded(
        (middle, (box.right, box.top), (box.right, box.bottom), (box.left, box.bottom),
         (box.left, box.top), middle),
        radius,
    )  # fmt: skip
    return DrawnPath(outline.start, outline.segments, closed=True)


def circle(center: Point, radius: float) -> DrawnPath:
    """Return a circle of four curves."""
    (x, y), k = center, radius * _QUARTER
    right, low, left, high = x + radius, y + radius, x - radius, y - radius
    quarters = (
        Curve((right, y), ((x + k, high), (right, y - k))),
        Curve((x, low), ((right, y + k), (x + k, low))),
        Curve((left, y), ((x - k, low), (left, y + k))),
        Curve((x, high), ((left, y - k), (x - k, high))),
    )
    return DrawnPath((x, high), quarters, closed=True)


def cut_end(path: DrawnPath, length: float) -> tuple[DrawnPath, Point]:
    """Cut `length` off the straight end of a path; also return the direction in which it ended."""
    last = path.segments[-1]
    start = path.segments[-2].end if len(path.segments) > 1 else path.start
    assert last.controls is None
    cut = _towards(last.end, start, min(length, _distance(start, last.end)))
    return DrawnPath(path.start, (*path.segments[:-1], Curve(cut))), _unit(cut, last.end)


@lru_cache(4096)  # a layout asks for those of each line again and again
def path_points(path: DrawnPath, steps: int = 12) -> tuple[Point, ...]:
    """Return points along the path, `steps` for each curve."""
    points = [path.start]
    for segment in path.segments:
        if segment.controls is None:
            points.append(segment.end)
        else:
            start, (first, second) = points[-1], segment.controls
            points += (
                _on_curve(start, first, second, segment.end, k / steps) for k in range(1, steps + 1)
            )
    return tuple(points)


def path_corners(path: DrawnPath) -> list[Point]:
    """Return the corners of a path of straight lines and round corners."""
    corners = [path.start]
    for before, segment in pairwise((None, *path.segments)):
        if segment is None or segment.controls is None:
            continue
        (x, y), (u, v) = before.end if before else path.start, segment.end
        is_upright = before is not None and corners[-1][0] == x
        corners.append((x, v) if is_upright else (u, y))
    return [*corners, path.end]


def parallel(points: Sequence[Point], distance: float) -> DrawnPath:
    """Return the line at a distance to the right of a line through points."""
    further = (b for a, b in pairwise(points) if _distance(a, b) > 1e-6)
    distinct = [points[0], *further]
    moved: list[Point] = []
    for index, (x, y) in enumerate(distinct):
        before, after = distinct[max(index - 1, 0)], distinct[min(index + 1, len(distinct) - 1)]
        if _is_level((before, (x, y))):  # where a curve begins or ends it runs as the line does
            after = x, y
        elif _is_level(((x, y), after)):
            before = x, y
        dx, dy = _unit(before, after)
        moved.append((x - dy * distance, y + dx * distance))
    return polyline(moved)


def _is_level(part: tuple[Point, Point]) -> bool:
    """Return whether a part of a line runs level or upright."""
    (x, y), (u, v) = part
    return (x, y) != (u, v) and (x == u or y == v)


def _on_curve(p: Point, q: Point, r: Point, s: Point, t: float) -> Point:
    a, b, c = _mix(p, q, t), _mix(q, r, t), _mix(r, s, t)
    return _mix(_mix(a, b, t), _mix(b, c, t), t)


def _mix(a: Point, b: Point, t: float) -> Point:
    return a[0] + (b[0] - a[0]) * t, a[1] + (b[1] - a[1]) * t


def _distance(a: Point, b: Point) -> float:
    return hypot(b[0] - a[0], b[1] - a[1])


def _unit(a: Point, b: Point) -> Point:
    length = _distance(a, b) or 1.0
    return (b[0] - a[0]) / length, (b[1] - a[1]) / length


def _towards(start: Point, end: Point, distance: float) -> Point:
    dx, dy = _unit(start, end)
    return start[0] + dx * distance, start[1] + dy * distance
