"""Painting ranks side by side: one column is placed, all are drawn, bars lie across them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import sqrt
from typing import Final

from xg.figures.draw.arrow import arrow
from xg.figures.draw.display import Display, Element, Shape, Text
from xg.figures.draw.glyph import frame, text_in
from xg.figures.draw.move import moved
from xg.figures.draw.paint import body, bounds, page
from xg.figures.draw.typeset import typeset
from xg.figures.layout.columns import alone, segments
from xg.figures.layout.crossings import crossings
from xg.figures.layout.measure import node_lines, node_size
from xg.figures.layout.placed import PlacedFigure
from xg.figures.model import style
from xg.figures.model.figure import Figure, FigureBar, FigureColumn, FigureEdge
from xg.figures.model.geometry import Box, Point, bounding_box, polyline, rectangle, rounded
from xg.figures.model.richtext import characters
from xg.figures.model.style import Color

_BETWEEN: Final = 10.0  # columns
_BEYOND: Final = 6.0  # how far a bar reaches over the columns
_INSIDE: Final = 6.0  # a frame, above and below what is in it
_CLEAR: Final = 5.0  # between a frame and a bar
_RAIL: Final = 11.0  # between a column and its rail, and between rails
_BELOW: Final = 26.0  # between the columns and a bar under them
_ROUNDING: Final = 9.0
_BRACE: Final = 14.0


def side_by_side(figure: Figure, placed: PlacedFigure) -> Display:
    """Draw all columns of a figure; `placed` is the first of them."""
    sheet = _Sheet(figure, placed)
    columns = [one for place in range(len(figure.columns)) for one in sheet.column(place)]
    edges = [one for one in columns if one.kind == "edge"]
    return page(figure, [*sheet.frames(), *columns, *sheet.bars(edges), *sheet.braces()])


class _Sheet:
    """The measures of a figure of columns: `room` is that of a column with the rails beside it."""

    def __init__(self, figure: Figure, placed: PlacedFigure) -> None:
        self.figure = figure
        self.placed = placed
        self.inline = {bar.node.id for bar in figure.bars if not bar.is_below}
        self.below = [bar for bar in figure.bars if bar.is_below]
        self.bodies = [self._body(column) for column in figure.columns]
        parts = [bounds(part) for one in self.bodies[0] for part in one.parts]
        content = bounding_box(parts)
        rails = len(self.below) * _RAIL + (_RAIL if self.below else 0.0)
        padding = style.GROUP_PADDING
        self.room = Box(
            content.left - padding, content.top, content.right + padding + rails, content.bottom
        )
        self.rails_from = content.right + padding
        self.pitch = self.room.width + _BETWEEN

    def _body(self, column: FigureColumn) -> list[Element]:
        """Paint a column without its bars."""
        placed = replace(self.placed, figure=alone(self.figure, column))
        return [
            one
            for one in body(placed)
            if not (one.op in self.inline and one.kind.startswith("node "))
        ]

    # ---- behind ----------------------------------------------------------------------------------

    def frames(self) -> Iterator[Element]:
        """Yield the lanes behind the columns, parted by the bars."""
        for place, column in enumerate(self.figure.columns):
            for number, box in enumerate(self._segments()):
                here = box.moved(place * self.pitch, 0.0)
                parts: list[Shape | Text] = [Shape(rectangle(here, _ROUNDING), fill=Color.LANE)]
                if number == 0:
                    line = typeset(column.heading, style.GLYPH_SIZE)
                    at = here.left + style.GROUP_PADDING, here.top + 7.0 + line.ascent
                    parts.append(Text(line, *at, Color.MUTED))
                yield Element(
                    f"rank {place}.{number}", "group", characters(column.heading), tuple(parts)
                )

    def _segments(self) -> list[Box]:
        found: list[Box] = []
        for number, nodes in enumerate(segments(self.figure)):
            boxes = [self.placed.nodes[node] for node in nodes]
            edges = enumerate(self.placed.figure.edges)
            inside = (n for n, e in edges if {e.tail, e.head} <= set(nodes))
            boxes += [self.placed.labels[n] for n in inside if n in self.placed.labels]
            around = bounding_box(boxes)
            top, bottom = around.top - _INSIDE, around.bottom + _INSIDE
            if number == 0:
                top -= style.GROUP_HEADING + style.GROUP_PADDING
            found.append(Box(self.room.left, top, self.room.right, bottom))
        return [self._clear(box) for box in found]

    def _clear(self, box: Box) -> Box:
        """Keep a frame off the bars above and below it."""
        top, bottom = box.top, box.bottom
        for node in self.inline:
            bar = self.placed.nodes[node]
            if bar.center[1] < box.center[1]:
                top = max(top, bar.bottom + _CLEAR)
            else:
                bottom = min(bottom, bar.top - _CLEAR)
        return replace(box, top=top, bottom=bottom)

    # ---- bars ------------------------------------------------------------------------------------

    def bars(self, edges: Sequence[Element]) -> Iterator[Element]:
        """Yield every bar, over the lines that only pass it."""
        for bar in self.figure.bars:
            look = style.NODE_STYLES[bar.node.kind]
            lines = node_lines(bar.node)
            for number, span in enumerate(bar.spans):
                box = self._bar_box(bar, span)
                width = max(line.width for line in lines)
                hairlines = crossings(box, Box.around(box.center, width, box.height), edges)
                text = (
                    replace(one, color=Color.MUTED if place else Color.INK)
                    for place, one in enumerate(text_in(lines, box))
                )
                title = bar.node.title or characters(bar.node.label)
                op = bar.node.id if len(bar.spans) == 1 else f"{bar.node.id} #{number}"
                kind = f"node {bar.node.kind.name.lower()}"
                yield Element(op, kind, title, (*frame(look, box), *hairlines, *text))

    def _bar_box(self, bar: FigureBar, span: tuple[int, int]) -> Box:
        first, last = span
        left = self.room.left + first * self.pitch
        right = self.room.right + last * self.pitch
        beyond = _BEYOND if len(bar.spans) == 1 else 0.0
        if bar.is_below:
            top = self._floor() + _BELOW
            for other in self.below[: self.below.index(bar)]:
                top += node_size(other.node).height + _BELOW / 2
            bottom = top + node_size(bar.node).height
        else:
            node = self.placed.nodes[bar.node.id]
            top, bottom = node.top, node.bottom
        return Box(left - beyond, top, right + beyond, bottom)

    def _floor(self) -> float:
        return max(box.bottom for box in self._segments())

    # ---- columns ---------------------------------------------------------------------------------

    def column(self, place: int) -> Iterator[Element]:
        """Yield a column; the rails beside it lie behind its nodes."""
        for element in (*self._rails(self.figure.columns[place]), *self.bodies[place]):
            op = element.op and f"{element.op} @{place}"
            yield moved(replace(element, op=op), place * self.pitch, 0.0)

    def _rails(self, column: FigureColumn) -> Iterator[Element]:
        """Lead out of nodes to a rail, and down it to a bar; or up from a bar and into nodes."""
        for number, bar in enumerate(self.below):
            edges = [edge for edge in column.edges if bar.node.id in (edge.tail, edge.head)]
            stops = {edge: self._stop(edge, bar, number) for edge in edges}
            top = min((y for _, y in stops.values()), default=0.0)
            x = self.rails_from + (number + 0.5) * _RAIL
            for edge, (left, y) in stops.items():
                # The highest one has the rail to itself, the others join it.
                floor = self._bar_box(bar, (0, 0)).top
                points = [(left, y), (x, y), *([(x, floor)] if y == top else [])]
                up = edge.tail == bar.node.id
                route = rounded(points[::-1] if up else points, style.CORNER / 2)
                shapes = arrow(route, edge.style)
                joins = y != top and not up
                parts = (replace(shapes[0], path=route),) if joins else shapes
                yield Element(f"{edge.tail}->{edge.head}", "edge", "", parts)

    def _stop(self, edge: FigureEdge, bar: FigureBar, number: int) -> Point:
        """Return where a rail's line leaves or enters a node: every second one further up."""
        box = self.placed.nodes[edge.head if edge.tail == bar.node.id else edge.tail]
        shift = 0.25 * box.height * (1 if number % 2 == 0 else -1)
        half = box.height / 2
        kind = self.placed.facts.kinds[edge.head if edge.tail == bar.node.id else edge.tail]
        if style.NODE_STYLES[kind].outline is style.Outline.CIRCLE:
            return box.center[0] + sqrt(half**2 - shift**2), box.center[1] + shift
        return box.right, box.center[1] + shift

    def braces(self) -> Iterator[Element]:
        """Yield a brace at the left of what is repeated."""
        for number, brace in enumerate(self.figure.braces):
            around = bounding_box([self.placed.nodes[node] for node in brace.nodes])
            x = self.room.left - _BEYOND - (number + 1) * _BRACE
            top, bottom = around.top - _CLEAR, around.bottom + _CLEAR
            points = ((x + _BRACE / 2, top), (x, top), (x, bottom), (x + _BRACE / 2, bottom))
            line = typeset(brace.label, style.GROUP_SIZE)
            at = x - _CLEAR - line.width, around.center[1]
            shape = Shape(polyline(points), line=Color.MUTED, width=style.LINE_WIDTH)
            parts = (shape, Text(line, *at, Color.MUTED))
            yield Element(f"brace {number}", "group", characters(brace.label), parts)
