"""Painting ranks side by side: one column is placed, all are drawn, bars run across them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Final

from xg.figures.draw.arrow import arrow
from xg.figures.draw.display import Display, DrawnShape, DrawnText, Element, Wire
from xg.figures.draw.glyph import frame, text_in
from xg.figures.draw.move import moved
from xg.figures.draw.paint import body, bounds, page
from xg.figures.draw.typeset import typeset
from xg.figures.layout.columns import ColumnIds, single_column
from xg.figures.layout.crossings import crossings
from xg.figures.layout.frames import rank_frames
from xg.figures.layout.measure import node_lines, node_size
from xg.figures.layout.placed import PlacedFigure
from xg.figures.model import style
from xg.figures.model.figure import (
    BarPlace,
    EdgeStyle,
    Figure,
    FigureBar,
    FigureBrace,
    FigureColumn,
)
from xg.figures.model.geometry import Box, bounding_box, polyline, rectangle
from xg.figures.model.richtext import characters
from xg.figures.model.style import Color

_BETWEEN: Final = 10.0  # columns
_BEYOND: Final = 6.0  # how far a bar reaches over the columns
_CLEAR: Final = 5.0  # between a brace and its text
_OUTSIDE: Final = 24.0  # between the columns and a bar above or under them
_STACKED: Final = 8.0  # between two such bars
_ARROWS: Final = 12.0  # between the arrows to two such bars
_ROUNDING: Final = 9.0
_BRACE: Final = 14.0


def side_by_side(figure: Figure, placed: PlacedFigure) -> Display:
    """Draw all columns of a figure; `placed` is the first of them."""
    sheet = _ColumnSheet(figure, placed)
    columns = [one for place in range(len(figure.columns)) for one in sheet.column(place)]
    columns += sheet.outer_arrows()
    edges = [one for one in columns if one.kind == "edge"]
    return page(figure, [*sheet.frames(), *columns, *sheet.bars(edges), *sheet.braces()])


class _ColumnSheet:
    """The measures of a figure of columns: `room` is that of a column, `outer` bars outside."""

    def __init__(self, figure: Figure, placed: PlacedFigure) -> None:
        self.figure = figure
        self.placed = placed
        self.inline = {bar.node.id for bar in figure.bars if bar.where is BarPlace.BETWEEN}
        self.bodies = [self._body(column) for column in figure.columns]
        parts = [bounds(part) for one in self.bodies[0] for part in one.parts]
        content = bounding_box(parts)
        padding = style.GROUP_PADDING
        self.room = Box(
            content.left - padding, content.top, content.right + padding, content.bottom
        )
        self.pitch = self.room.width + max(_BETWEEN, *map(self._between, figure.bars), 0.0)
        self.frame_boxes = [
            Box(self.room.left, top, self.room.right, bottom)
            for top, bottom in rank_frames(self.placed)
        ]
        self.outer = self._outer()

    def _body(self, column: FigureColumn) -> list[Element]:
        """Paint a column without its bars."""
        placed = replace(self.placed, figure=single_column(self.figure, column))
        return [
            one
            for one in body(placed)
            if not (one.op in self.inline and one.kind.startswith("node "))
        ]

    def _between(self, bar: FigureBar) -> float:
        """Return the room between columns at which no line has to pass a bar's text."""
        if bar.node.id not in self.inline or all(first == last for first, last in bar.spans):
            return 0.0
        box = replace(self.placed.nodes[bar.node.id], left=self.room.left, right=self.room.right)
        edges = [one for one in self.bodies[0] if one.kind == "edge"]
        xs = sorted(shape.path.start[0] for shape in crossings(box, edges))
        needed = max(line.width for line in node_lines(bar.node)) + 2 * _CLEAR
        widest = max((b - a for a, b in pairwise((box.left, *xs, box.right))), default=0.0)
        if not xs or widest >= needed:
            return 0.0
        return needed - (xs[0] - box.left) - (box.right - xs[-1])

    # ---- behind ----------------------------------------------------------------------------------

    def frames(self) -> Iterator[Element]:
        """Yield the lanes behind the columns, parted by the bars."""
        for place, column in enumerate(self.figure.columns):
            for number, box in enumerate(self.frame_boxes):
                here = box.moved(place * self.pitch, 0.0)
                parts: list[DrawnShape | DrawnText] = [
                    DrawnShape(rectangle(here, _ROUNDING), fill=Color.LANE)
                ]
                if number == 0:
                    line = typeset(column.heading, style.GLYPH_SIZE)
                    at = here.left + style.GROUP_PADDING, here.top + 7.0 + line.ascent
                    parts.append(DrawnText(line, *at, Color.MUTED))
                yield Element(
                    f"rank {place}.{number}", "group", characters(column.heading), tuple(parts)
                )

    # ---- bars ------------------------------------------------------------------------------------

    def bars(self, edges: Sequence[Element]) -> Iterator[Element]:
        """Yield every bar, over the lines that only pass it."""
        for bar in self.figure.bars:
            look = style.NODE_STYLES[bar.node.kind]
            lines = node_lines(bar.node)
            for number, span in enumerate(bar.spans):
                box = self._bar_box(bar, span)
                width = max(line.width for line in lines)
                hairlines = tuple(crossings(box, edges))
                room = Box.around((_free_place(box, width, hairlines), box.center[1]), 0.0, 0.0)
                text_room = room.grown(width / 2 + 2.0)
                hairlines = tuple(
                    one
                    for one in hairlines
                    if not text_room.left < one.path.start[0] < text_room.right
                )
                text = (
                    replace(one, color=Color.MUTED if place else Color.INK)
                    for place, one in enumerate(text_in(lines, room))
                )
                title = bar.node.title or characters(bar.node.label)
                op = bar.node.id if len(bar.spans) == 1 else f"{bar.node.id} #{number}"
                kind = f"node {bar.node.kind.name.lower()}"
                yield Element(op, kind, title, (*frame(look, box), *hairlines, *text))

    def _outer(self) -> dict[str, Box]:
        """Place the bars above and under all columns, as wide as their texts need."""
        boxes: dict[str, Box] = {}
        around = bounding_box(self.frame_boxes)
        top, bottom = around.top - _OUTSIDE, around.bottom + _OUTSIDE
        left = self.room.left - _BEYOND
        right = self.room.right + (len(self.figure.columns) - 1) * self.pitch + _BEYOND
        above = [bar for bar in self.figure.bars if bar.where is BarPlace.ABOVE]
        below = [bar for bar in self.figure.bars if bar.where is BarPlace.BELOW]
        for bar in (*reversed(above), *below):
            size = node_size(bar.node)
            beyond = max(0.0, (size.width - (right - left)) / 2)
            start = top - size.height if bar.where is BarPlace.ABOVE else bottom
            box = Box(left - beyond, start, right + beyond, start + size.height)
            boxes[bar.node.id] = box
            if bar.where is BarPlace.ABOVE:
                top = box.top - _STACKED
            else:
                bottom = box.bottom + _STACKED
        return boxes

    def outer_arrows(self) -> Iterator[Element]:
        """Yield the arrows between every column and the bars above and under all of them."""
        frame = bounding_box(self.frame_boxes)
        for where in (BarPlace.ABOVE, BarPlace.BELOW):
            bars = [bar for bar in self.figure.bars if bar.where is where]
            for number, bar in enumerate(bars):
                shift = (number - (len(bars) - 1) / 2) * _ARROWS
                box, x = self.outer[bar.node.id], frame.center[0] + shift
                if where is BarPlace.ABOVE:
                    line, look = ((x, box.bottom), (x, frame.top)), EdgeStyle.SINGLE
                else:
                    line, look = ((x, frame.bottom), (x, box.top)), EdgeStyle.DASHED
                parts = arrow(polyline(line), look)
                for place in range(len(self.figure.columns)):
                    yield moved(Element("", "edge", "", parts), place * self.pitch, 0.0)

    def _bar_box(self, bar: FigureBar, span: tuple[int, int]) -> Box:
        if bar.node.id in self.outer:
            return self.outer[bar.node.id]
        first, last = span
        left = self.room.left + first * self.pitch
        right = self.room.right + last * self.pitch
        beyond = _BEYOND if len(bar.spans) == 1 else 0.0
        node = self.placed.nodes[bar.node.id]
        top, bottom = node.top, node.bottom
        return Box(left - beyond, top, right + beyond, bottom)

    # ---- columns ---------------------------------------------------------------------------------

    def column(self, place: int) -> Iterator[Element]:
        """Yield a column."""
        for element in self.bodies[place]:
            op = element.op and f"{element.op} @{place}"
            here = replace(element, op=op, wire=element.wire and self._wire(element.wire, place))
            yield moved(here, place * self.pitch, 0.0)

    def _wire(self, wire: Wire, place: int) -> Wire:
        """Return what an edge of one column joins there."""
        names = ColumnIds(place, {bar.node.id: bar for bar in self.figure.bars})
        value = f"{wire.value} @{place}"
        return Wire(names.of(wire.tail), names.of(wire.head), value, wire.output)

    def braces(self) -> Iterator[Element]:
        """Yield a brace at the left of a repetition or a block, the outer at the left of inner."""
        lefts: dict[int, float] = {}
        order = sorted(enumerate(self.figure.braces), key=lambda one: len(one[1].nodes))
        for number, brace in order:
            inner = (left for other, left in lefts.items() if self._is_inside(other, brace))
            x = min((self.room.left - _BEYOND, *inner)) - _BRACE
            around = bounding_box([self.placed.nodes[node] for node in brace.nodes])
            top, bottom = around.top - _CLEAR, around.bottom + _CLEAR
            points = ((x + _BRACE / 2, top), (x, top), (x, bottom), (x + _BRACE / 2, bottom))
            line = typeset(brace.label, style.GROUP_SIZE)
            lefts[number] = x - _CLEAR - line.width
            at = lefts[number], around.center[1]
            shape = DrawnShape(polyline(points), line=Color.MUTED, width=style.LINE_WIDTH)
            parts = (shape, DrawnText(line, *at, Color.MUTED))
            yield Element(f"brace {number}", "group", characters(brace.label), parts)

    def _is_inside(self, number: int, brace: FigureBrace) -> bool:
        return set(self.figure.braces[number].nodes) <= set(brace.nodes)


def _free_place(bar: Box, width: float, hairlines: Sequence[DrawnShape]) -> float:
    """Return the middle for a bar's text: nearest to its own, with no line through the text."""
    xs = sorted({shape.path.start[0] for shape in hairlines})
    ends = [bar.left, *xs, bar.right]
    half = width / 2 + _CLEAR
    free = [(a + half, b - half) for a, b in pairwise(ends) if b - a >= 2 * half]
    middle = bar.center[0]
    places = [min(max(middle, low), high) for low, high in free]
    if not places:  # the lines hide behind the text
        low, high = max(pairwise(ends), key=lambda pair: pair[1] - pair[0])
        return (low + high) / 2
    return min(places, key=lambda x: abs(x - middle))
