"""Paint ranks side by side: place one column, draw them all, and run bars across."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, groupby, pairwise, product
from typing import Final

from xg.diagnostics.lazy_dataclass import dataclass, replace
from xg.figures.draw import font
from xg.figures.draw.font import typeset
from xg.figures.draw.glyph import (
    Display,
    DrawnShape,
    DrawnText,
    Element,
    Wire,
    arrow,
    boxed_text,
    frame,
    moved,
    node_lines,
    node_size,
)
from xg.figures.draw.paint import body, bounds, page
from xg.figures.layout.placement import PlacedFigure
from xg.figures.layout.request import rank_frames
from xg.figures.model import figure as style
from xg.figures.model.figure import (
    BarPlace,
    Box,
    Color,
    EdgeStyle,
    Figure,
    FigureBar,
    FigureBrace,
    FigureColumn,
    Point,
    bounding_box,
    path_points,
    polyline,
    rectangle,
    rounded,
)
from xg.figures.model.richtext import characters, plain
from xg.figures.model.structure import ColumnIds, bar_id, single_column

# Hairlines: a line that a bar leaves as it is continues on the bar, so that an eye can follow.
#
# One that only passes takes no part in the collective: it ends nowhere at the bar. One of a pass in
# which the bar does nothing ends at its rim, and goes on from there to where arrows leave the
# other. The bar's text is placed where none is.


_HAIRLINE: Final = 0.45
_ALL: Final = 0.95  # of a bar's height
_SAME: Final = 0.05  # a smaller shift is rounding


def passing(bar: Box, edges: Iterable[Element]) -> Iterator[DrawnShape]:
    """Yield the hairlines on a bar, of edges that run under it from its top to its bottom."""
    for edge in edges:
        for shape in edge.parts:
            if isinstance(shape, DrawnShape) and shape.line is not None:
                points = _inside(bar, path_points(shape.path))
                if points and _height(points) > _ALL * bar.height:
                    yield DrawnShape(polyline(points), None, shape.line, _HAIRLINE, shape.dashes)


def going_on(bar: str, edges: Sequence[Element]) -> Iterator[DrawnShape]:
    """Yield the hairlines on a bar of a column, from edges without a head to those that leave it.

    They branch in the middle of the bar, as one line does.
    """
    lines = [(one, [p for p in one.parts if isinstance(p, DrawnShape)]) for one in edges]
    ending = [parts for one, parts in lines if one.wire and one.wire.head == bar]
    leaving = [parts for one, parts in lines if one.wire and one.wire.tail == bar]
    for before, after in product(ending, leaving):
        has_head = any(part.line is None for part in before)
        if not has_head and before[0].dashes == after[0].dashes:
            end = _mean([path_points(part.path)[-1] for part in before])
            start = _mean([part.path.start for part in after if part.line is not None])
            yield DrawnShape(
                rounded(_way(end, start), style.CORNER),
                line=after[0].line,
                width=_HAIRLINE,
                dashes=after[0].dashes,
            )


def free_ranges(bar: Box, lines: Iterable[DrawnShape]) -> list[tuple[float, float]]:
    """Return the parts of a bar's width where no hairline is, from left to right."""
    taken = sorted((box.left, box.right) for box in (line.path.bounds() for line in lines))
    free: list[tuple[float, float]] = []
    left = bar.left
    for start, end in taken:
        if start >= left:
            free.append((left, start))
        left = max(left, end)
    return [*free, (left, bar.right)]


def _way(end: Point, start: Point) -> tuple[Point, ...]:
    if abs(end[0] - start[0]) < _SAME:
        return end, start
    middle = (end[1] + start[1]) / 2
    return end, (end[0], middle), (start[0], middle), start


def _mean(points: Sequence[Point]) -> Point:
    xs, ys = zip(*points, strict=True)
    return sum(xs) / len(xs), sum(ys) / len(ys)


def _inside(bar: Box, points: Sequence[Point]) -> list[Point]:
    """Return the part of a line that runs between the top and the bottom of a bar."""
    inner: list[Point] = []
    for a, b in pairwise(points):
        if max(a[1], b[1]) > bar.top and min(a[1], b[1]) < bar.bottom:
            ends = [_at(a, b, y) for y in (min(max(p[1], bar.top), bar.bottom) for p in (a, b))]
            inner += [point for point in ends if bar.left < point[0] < bar.right]
    return inner


def _at(a: Point, b: Point, y: float) -> Point:
    """Return the point of a line at a height; of a level line its beginning."""
    if a[1] == b[1]:
        return a
    return a[0] + (b[0] - a[0]) * (y - a[1]) / (b[1] - a[1]), y


def _height(points: list[Point]) -> float:
    return max(y for _, y in points) - min(y for _, y in points)


# Bars across columns: their text where no line is, and how much room columns leave for it.


CLEAR: Final = 5.0  # between a text and what is beside it
_NEAR_TEXT: Final = 2.0  # a line so near to a text is left out


@dataclass(frozen=True, slots=True)
class BarRoom:
    """A bar whose text is wider than a column; it may be wider at both ends of its lines."""

    bar: FigureBar
    needed: float
    before: float
    behind: float

    def gap(self, folded: frozenset[int]) -> float:
        """Return how far apart two columns have to be that are both drawn in full."""
        places = (pairwise(range(first, last + 1)) for first, last in self.bar.spans)
        has_two = any(folded.isdisjoint(pair) for pairs in places for pair in pairs)
        return self.needed - self.before - self.behind if has_two else 0.0

    def strip(self, gap: float, folded: frozenset[int]) -> float:
        """Return how wide strips have to be, so that every one of its bars has room somewhere."""
        return max(self._least(span, gap, folded) for span in self.bar.spans)

    def _least(self, span: tuple[int, int], gap: float, folded: frozenset[int]) -> float:
        first, last = span
        ways: list[float] = []
        for is_folded, run in groupby(range(first, last + 1), lambda place: place in folded):
            places = list(run)
            left = self.behind + gap if places[0] > first else 0.0
            right = self.before + gap if places[-1] < last else 0.0
            if is_folded:
                missing = self.needed - left - right - gap * (len(places) - 1)
                ways.append(missing / len(places))
            elif len(places) > 1:
                ways.append(0.0)
        return min(ways, default=0.0)


def bar_rooms(bar: FigureBar, box: Box, lines: Sequence[DrawnShape]) -> Iterator[BarRoom]:
    """Yield what a bar lacks if no part of a column, a `box` with hairlines, holds its text."""
    needed = max(line.width for line in node_lines(bar.node)) + 2 * CLEAR
    ranges = [high - low for low, high in free_ranges(box, lines)]
    if len(ranges) > 1 and max(ranges) < needed:
        yield BarRoom(bar, needed, ranges[0], ranges[-1])


def bar_element(bar: FigureBar, number: int, box: Box, lines: Sequence[DrawnShape]) -> Element:
    """Draw one of the bars of a collective, with hairlines beside its text."""
    texts = node_lines(bar.node)
    width = max(text.width for text in texts)
    room = Box.around((_text_place(box, width, lines), box.center[1]), 0.0, 0.0)
    text_room = room.grown(width / 2 + _NEAR_TEXT)
    seen = (one for one in lines if not one.path.bounds().grown(0.01).overlaps(text_room))
    title = bar.node.title or characters(bar.node.label)
    kind = f"node {bar.node.kind.name.lower()}"
    outline = frame(style.NODE_STYLES[bar.node.kind], box)
    return Element(bar_id(bar, number), kind, title, (*outline, *seen, *boxed_text(texts, room)))


def _text_place(bar: Box, width: float, lines: Sequence[DrawnShape]) -> float:
    """Return the middle for a bar's text: nearest to its own, with no line through the text."""
    ranges = free_ranges(bar, lines)
    half = width / 2 + CLEAR - 0.01  # what just fits has room
    free = [(a + half, b - half) for a, b in ranges if b - a >= 2 * half]
    middle = bar.center[0]
    places = [min(max(middle, low), high) for low, high in free]
    if not places:  # the lines hide behind the text
        low, high = max(ranges, key=lambda pair: pair[1] - pair[0])
        return (low + high) / 2
    return min(places, key=lambda x: abs(x - middle))


_BETWEEN: Final = 10.0  # columns
_BEYOND: Final = 6.0  # how far a bar reaches over the columns
_OUTSIDE: Final = 24.0  # between the columns and a bar above or under them
_STACKED: Final = 8.0  # between two such bars
_ARROWS: Final = 12.0  # between the arrows to two such bars
_ROUNDING: Final = 9.0
_BRACE: Final = 14.0
_WIDEST: Final = 1500.0  # of columns that are all drawn: about as much as a screen has
_INSET: Final = 6.0  # of a lane in a rank's frame
_LEAST: Final = 3.0
_DOTS: Final = "· · ·"
_SENT: Final = {BarPlace.ABOVE: "parameters", BarPlace.BELOW: "gradients"}


def side_by_side(figure: Figure, placed: PlacedFigure) -> Display:
    """Draw all columns of a figure; `placed` is the first of them."""
    sheet = _ColumnSheet(figure, placed)
    columns = [one for place in range(len(figure.columns)) for one in sheet.column(place)]
    columns += sheet.outer_arrows()
    edges = [one for one in columns if one.kind == "edge"]
    return page(figure, [*sheet.frames(), *columns, *sheet.bars(edges), *sheet.braces()])


class _ColumnSheet:
    """Measure a figure of columns: `room` is the room of a column, `outer` the bars outside."""

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
        self.tight = list(self._tight())
        self.lanes = [bounds(one.parts[0]) for one in self.bodies[0] if one.kind == "group"]
        self.folded = self._folded()
        self.gap = max([_BETWEEN, *(one.gap(self.folded) for one in self.tight)])
        self.strip = self._strip()
        self.shifts = self._shifts()
        self.frame_boxes = [self._around_lanes(*ends) for ends in rank_frames(self.placed)]
        self.bodies = [list(map(self._clip_lane, one)) for one in self.bodies]
        self.outer = self._outer()

    def _body(self, column: FigureColumn) -> list[Element]:
        """Paint a column without its bars."""
        placed = replace(self.placed, figure=single_column(self.figure, column))
        return [
            one
            for one in body(placed)
            if not (one.op in self.inline and one.kind.startswith("node "))
        ]

    def _tight(self) -> Iterator[BarRoom]:
        """Yield the bars whose text has no room beside the lines of a column."""
        edges = [one for one in self.bodies[0] if one.kind == "edge"]
        for bar in self.figure.bars:
            node = bar.node.id
            if node in self.inline:
                box = self.placed.nodes[node]
                box = replace(box, left=self.room.left, right=self.room.right)
                yield from bar_rooms(bar, box, [*passing(box, edges), *going_on(node, edges)])

    # ---- places of columns -----------------------------------------------------------------------

    def _folded(self) -> frozenset[int]:
        """Choose the columns that are drawn as strips, where all would be too wide.

        The first and the last are never, nor all that one bar spans: its text needs their room.
        """
        count = len(self.figure.columns)
        if count * (self.room.width + _BETWEEN) < _WIDEST:
            return frozenset()
        kept = {0, count - 1}
        for first, last in (span for bar in self.figure.bars for span in bar.spans):
            if not kept & set(range(first, last + 1)):
                kept.add(first)
        return frozenset(range(count)) - kept

    def _strip(self) -> float:
        """Return how wide a strip is: as its heading needs, and the texts of bars over it."""
        headings = (typeset(one.heading, style.GLYPH_SIZE).width for one in self.figure.columns)
        texts = (one.strip(self.gap, self.folded) for one in self.tight)
        return max(max(headings) + 2 * style.GROUP_PADDING, *texts, 0.0)

    def _shifts(self) -> list[float]:
        """Return how far every column is from the first, and where one more would be."""
        widths = (
            (self.strip if place in self.folded else self.room.width) + self.gap
            for place in range(len(self.figure.columns))
        )
        return list(accumulate(widths, initial=0.0))

    def _at(self, place: int, box: Box) -> Box:
        """Return a box as wide as a column, or as the inside of a lane, in another column."""
        here = box.moved(self.shifts[place], 0.0)
        if place not in self.folded:
            return here
        inset = min(box.left - self.room.left, _INSET)
        left = self.room.left + self.shifts[place]
        return replace(here, left=left + inset, right=left + self.strip - inset)

    def _around_lanes(self, top: float, bottom: float) -> Box:
        """Return a rank's frame, which begins above the headings of lanes in it."""
        frame = Box(self.room.left, top, self.room.right, bottom)
        highest = min((one.top for one in self.lanes if one.overlaps(frame)), default=bottom)
        return replace(frame, top=self._rim(highest)) if highest < top + _LEAST else frame

    def _rim(self, highest: float) -> float:
        """Return the place of a rim above a lane's that is under no text, if there is one."""
        texts = [bounds(part) for one in self.bodies[0] if one.kind == "edge"
                 for part in one.parts if isinstance(part, DrawnText)]  # fmt: skip
        places = [highest - away for away in (_INSET, 5.0, 4.0, _LEAST, 8.0, 10.0, 12.0)]
        free = (y for y in places if not any(one.top - 1 < y < one.bottom + 1 for one in texts))
        return next(free, places[0])

    def _clip_lane(self, element: Element) -> Element:
        """Return a lane that ends inside of its rank's frame, anything else as it is."""
        shape = element.parts[0] if element.kind == "group" else None
        if not isinstance(shape, DrawnShape):
            return element
        lane = shape.path.bounds()
        frame = next(one for one in self.frame_boxes if one.overlaps(lane))
        lane = replace(lane, bottom=min(lane.bottom, frame.bottom - _LEAST))
        shape = replace(shape, path=rectangle(lane, _ROUNDING))
        return replace(element, parts=(shape, *element.parts[1:]))

    # ---- behind ----------------------------------------------------------------------------------

    def frames(self) -> Iterator[Element]:
        """Yield the lanes under the columns, divided by the bars."""
        for place, column in enumerate(self.figure.columns):
            for number, box in enumerate(self.frame_boxes):
                here = self._at(place, box)
                parts: list[DrawnShape | DrawnText] = [
                    DrawnShape(rectangle(here, _ROUNDING), fill=Color.LANE)
                ]
                if number == 0:
                    line = typeset(column.heading, style.GLYPH_SIZE)
                    at = here.left + style.GROUP_PADDING, here.top + 7.0 + line.ascent
                    parts.append(DrawnText(line, *at, Color.MUTED))
                if place in self.folded and not any(map(box.overlaps, self.lanes)):
                    parts.append(_dots(here))
                yield Element(
                    f"rank {place}.{number}", "group", characters(column.heading), tuple(parts)
                )

    # ---- bars ------------------------------------------------------------------------------------

    def bars(self, edges: Sequence[Element]) -> Iterator[Element]:
        """Yield every bar, over the lines that only pass it."""
        for bar in self.figure.bars:
            for number, span in enumerate(bar.spans):
                box = self._bar_box(bar, span)
                lines = (*passing(box, edges), *self._going_on(bar, span))
                yield bar_element(bar, number, box, lines)

    def _going_on(self, bar: FigureBar, span: tuple[int, int]) -> Iterator[DrawnShape]:
        """Yield the hairlines of lines that end at a bar and go on behind it, column by column."""
        lines = Element("", "", "", tuple(going_on(bar.node.id, self.bodies[0])))
        first, last = span
        for place in range(first, last + 1):
            if place not in self.folded:
                parts = moved(lines, self.shifts[place], 0.0).parts
                yield from (part for part in parts if isinstance(part, DrawnShape))

    def _outer(self) -> dict[str, Box]:
        """Place the bars above and under all columns, as wide as their texts need."""
        boxes: dict[str, Box] = {}
        around = bounding_box(self.frame_boxes)
        top, bottom = around.top - _OUTSIDE, around.bottom + _OUTSIDE
        left = self.room.left - _BEYOND
        right = self._at(len(self.figure.columns) - 1, self.room).right + _BEYOND
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
        """Yield the arrows between every column and the bars above and under all of them.

        The last one says of all at its side which values they are: it comes from no one node.
        """
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
                words = [_sent(where, x, frame)] if bar is bars[-1] else []
                parts = (*arrow(polyline(line), look), *words)
                for place in range(len(self.figure.columns)):
                    if place not in self.folded:
                        yield moved(Element("", "edge", "", parts), self.shifts[place], 0.0)

    def _bar_box(self, bar: FigureBar, span: tuple[int, int]) -> Box:
        if bar.node.id in self.outer:
            return self.outer[bar.node.id]
        first, last = span
        left, right = self._at(first, self.room).left, self._at(last, self.room).right
        beyond = _BEYOND if len(bar.spans) == 1 else 0.0
        node = self.placed.nodes[bar.node.id]
        top, bottom = node.top, node.bottom
        return Box(left - beyond, top, right + beyond, bottom)

    # ---- columns ---------------------------------------------------------------------------------

    def column(self, place: int) -> Iterator[Element]:
        """Yield a column; of a strip its lanes."""
        if place in self.folded:
            yield from self._strip_lanes(place)
            return
        for element in self.bodies[place]:
            op = element.op and f"{element.op} @{place}"
            here = replace(element, op=op, wire=element.wire and self._wire(element.wire, place))
            yield moved(here, self.shifts[place], 0.0)

    def _strip_lanes(self, place: int) -> Iterator[Element]:
        """Yield the lanes in a strip, as high as they are in a column."""
        for element in self.bodies[place]:
            shape = element.parts[0] if element.kind == "group" else None
            if isinstance(shape, DrawnShape):
                box = self._at(place, shape.path.bounds())
                shape = replace(shape, path=rectangle(box, _ROUNDING))
                yield replace(element, op=f"{element.op} @{place}", parts=(shape, _dots(box)))

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
            top, bottom = around.top - CLEAR, around.bottom + CLEAR
            points = ((x + _BRACE / 2, top), (x, top), (x, bottom), (x + _BRACE / 2, bottom))
            line = typeset(brace.label, style.GROUP_SIZE)
            lefts[number] = x - CLEAR - line.width
            at = lefts[number], around.center[1]
            shape = DrawnShape(polyline(points), line=Color.MUTED, width=style.LINE_WIDTH)
            parts = (shape, DrawnText(line, *at, Color.MUTED))
            yield Element(f"brace {number}", "group", characters(brace.label), parts)

    def _is_inside(self, number: int, brace: FigureBrace) -> bool:
        return set(self.figure.braces[number].nodes) <= set(brace.nodes)


def _sent(where: BarPlace, x: float, frame: Box) -> DrawnText:
    """Say, beside the arrows to the bars outside, which values they are."""
    words = typeset(plain(_SENT[where]), style.SHAPE_SIZE)
    top = frame.top - _OUTSIDE if where is BarPlace.ABOVE else frame.bottom
    y = top + (_OUTSIDE + font.CAP_HEIGHT * style.SHAPE_SIZE) / 2
    return DrawnText(words, x + style.LABEL_GAP, y, Color.MUTED)


def _dots(box: Box) -> DrawnText:
    """Return the text of a strip, which represents the same nodes as its neighbors."""
    line = typeset(plain(_DOTS), style.GLYPH_SIZE)
    x, y = box.center[0] - line.width / 2, box.center[1] + line.ascent / 2
    return DrawnText(line, x, y, Color.MUTED, align=0.5)
