"""Paint placed figures as display lists: one figure, a sheet, a timeline, slides."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from math import ceil
from typing import Final

from xg.diagnostics.lazy_dataclass import dataclass, replace
from xg.figures.draw import font
from xg.figures.draw.font import TextLine, line_bounds, typeset, wrap_text
from xg.figures.draw.glyph import (
    Display,
    DrawnShape,
    DrawnText,
    Element,
    Wire,
    arrow,
    edge_lines,
    glyph,
    label_baselines,
    legend,
    moved,
    text_in,
)
from xg.figures.layout import run_engine
from xg.figures.layout.lanes import Lanes, lanes
from xg.figures.layout.placement import PlacedFigure
from xg.figures.layout.request import pair_shift
from xg.figures.model import figure as style
from xg.figures.model.figure import (
    LEAST_SIZE,
    BarPlace,
    Box,
    Color,
    DrawnPath,
    EdgeStyle,
    Figure,
    FigureEdge,
    NodeKind,
    Point,
    TooNarrow,
    bounding_box,
    path_points,
    rectangle,
)
from xg.figures.model.richtext import RichText, bold, characters, muted, plain, title_text
from xg.figures.model.structure import first_column

_GROUP_ROUNDING = 9.0
_GROUP_GAP = 3.0
_BELOW_TITLE = 14.0
_PIXEL = 0.75  # points: a page is whole pixels large
_TITLE_LEADING = 6.0
_LEAST_TITLE = 460.0  # the width of a title's lines above a narrow figure


def paint(placed: PlacedFigure) -> Display:
    """Draw a placed figure with its title above and, if wanted, its legend below."""
    return page(placed.figure, body(placed))


def body(placed: PlacedFigure) -> list[Element]:
    """Draw a placed figure without title and legend."""
    around = lanes(placed)
    elements = [*_frames(placed, around), *_edges(placed, placed.paths, around)]
    align = _alignments(placed)
    elements += (
        Element(node.id, f"node {node.kind.name.lower()}", node.title or characters(node.label),
                glyph(node, placed.nodes[node.id], align.get(node.id, 0.5)))
        for node in placed.figure.nodes
    )  # fmt: skip
    return elements


def _alignments(placed: PlacedFigure) -> dict[str, float]:
    """Return where lines of text are aligned: at the line between them and their node."""
    if placed.is_turned:
        return {}
    right = dict.fromkeys(placed.facts.left.values(), 1.0)
    return right | dict.fromkeys(placed.facts.right.values(), 0.0)


def page(figure: Figure, body: list[Element]) -> Display:
    """Put the title above what is drawn and, if wanted, the legend below it.

    A page of a given width has narrow margins and a title in several lines; what is still too wide
    is made smaller. Raises TooNarrow where its text would be too small to read.
    """
    around = bounding_box([bounds(part) for one in body for part in one.parts] or [Box(0, 0, 1, 1)])
    has_size = bool(figure.width or figure.height)
    margin = style.NARROW_MARGIN if has_size else style.PAGE_MARGIN
    room = figure.width - 2 * margin if figure.width else 0.0
    # A title is as wide as the figure below it, unless the figure is narrow.
    lines = room or max(around.width, _LEAST_TITLE)
    elements, top, widest = _heading(figure, margin, lines)
    scale = _scale(figure, around, (room, figure.height - top - margin), _smallest(body))
    inner = max(around.width * scale, widest)
    width = figure.width or inner + 2 * margin
    # A figure narrower than its title is centered under it.
    shift = (width - around.width * scale) / 2 - around.left * scale, top - around.top * scale
    elements += (moved(one, *shift, scale) for one in body)
    height = top + around.height * scale + margin
    if figure.has_key:
        wide = figure.width / scale or max(width, style.LEAST_LEGEND_WIDTH)
        below, extent = legend(figure, wide)
        elements += (moved(one, margin, height, scale) for one in below)
        width = figure.width or max(width, extent.width + 2 * margin)
        height += extent.height * scale + margin
    name = characters(title_text(figure.title, figure.subtitle))
    width = figure.width or ceil(width / _PIXEL - 1e-6) * _PIXEL
    pixels = ceil(height / _PIXEL - 1e-6) * _PIXEL
    height = min(pixels, figure.height) if figure.height else pixels
    return Display(width, height, name, figure.description, tuple(elements))


def _scale(figure: Figure, around: Box, room: tuple[float, float], smallest: float) -> float:
    """Return how much smaller a figure is made for its page.

    Raises TooNarrow if the smallest text could not be read then.
    """
    wide = room[0] / around.width if figure.width else 1.0
    high = 1.0
    if figure.height:
        high = room[1] / around.height
        if figure.has_key:  # the key is below it, at the same scale
            high = room[1] / (
                around.height + legend(figure, figure.width or around.width)[1].height
            )
    scale, least = min(1.0, wide, high), LEAST_SIZE / smallest
    if scale < least and (figure.width or figure.height):
        is_low = high < wide
        size, part = (figure.height, high) if is_low else (figure.width, wide)
        end = room[1] if is_low else room[0]
        raise TooNarrow(figure.title, size - end + end * least / part, is_low=is_low)
    return scale


def _smallest(body: Sequence[Element]) -> float:
    """Return the size of the smallest text, scripts aside."""
    texts = [part for one in body for part in one.parts if isinstance(part, DrawnText)]
    sizes = (span.size for text in texts for span in text.line.spans if span.y == 0)
    return min(sizes, default=style.SHAPE_SIZE)


def _heading(figure: Figure, margin: float, room: float) -> tuple[list[Element], float, float]:
    """Return the title, where what is below it begins, and how wide it is."""
    if not figure.has_heading:
        return [], margin, 0.0
    top, parts = margin, list[DrawnText]()
    for words in _title_lines(figure, room):
        line = typeset(words, style.TITLE_SIZE)
        parts.append(DrawnText(line, margin, top + line.ascent))
        top += line.ascent + _TITLE_LEADING
    widest = max(part.line.width for part in parts)
    top += _BELOW_TITLE - _TITLE_LEADING
    return [Element("", "title", "", tuple(parts))], top, widest


def _title_lines(figure: Figure, room: float) -> Sequence[RichText]:
    """Return the lines of a title: its subtitle begins one of its own if that costs no line."""
    whole = title_text(figure.title, figure.subtitle)
    running = list(wrap_text(whole, style.TITLE_SIZE, room))
    if not figure.subtitle:
        return running
    texts = (*bold(figure.title), *plain(" — ")), plain(figure.subtitle)
    parted = [line for text in texts for line in wrap_text(text, style.TITLE_SIZE, room)]
    return parted if len(parted) == len(running) else running


def node_boxes(display: Display) -> Mapping[str, Box]:
    """Return where each node of a picture is, by its id."""
    return {
        element.op: bounding_box([bounds(part) for part in element.parts])
        for element in display.elements
        if element.kind.startswith("node ") and element.parts
    }


def _frames(placed: PlacedFigure, around: Lanes) -> Iterator[Element]:
    for group in placed.figure.groups:
        if group.id not in around.frames:
            continue
        frame = around.frames[group.id]
        parts = (
            DrawnShape(
                rectangle(frame.box, _GROUP_ROUNDING),
                fill=Color.LANE,
                # Without a mark: two frames that touch stay two.
                line=style.MARKS.get(group.mark, Color.BACKGROUND),
                width=style.MARKED_WIDTH if group.mark in style.MARKS else _GROUP_GAP,
            ),
            DrawnText(frame.heading, *frame.at, style.MARKS.get(group.mark, Color.MUTED)),
        )
        yield Element(group.id, "group", characters(group.label), parts)


def _edges(
    placed: PlacedFigure, paths: Mapping[int, DrawnPath], around: Lanes
) -> Iterator[Element]:
    for number, edge in enumerate(placed.figure.edges):
        if number not in paths:
            continue
        line = arrow(paths[number], edge.style, edge.mark, has_head=not edge.passes)
        parts: list[DrawnShape | DrawnText] = [*line]
        if edge.label and (not edge.repeats or number in around.labels):
            color = style.MARKS.get(edge.mark, Color.INK)
            parts += (replace(one, color=color) for one in _label(placed, number, edge, around))
        name = f"{edge.tail}->{edge.head}"
        yield Element(name, "edge", characters(edge.text), tuple(parts), wire(edge))


def wire(edge: FigureEdge) -> Wire:
    """Return what an edge joins."""
    tail, value = edge.value
    return Wire(edge.tail, edge.head, f"{value} of {tail}", edge.output)


def _label(
    placed: PlacedFigure, number: int, edge: FigureEdge, around: Lanes
) -> Iterator[DrawnText]:
    """Set a label at the right of its line; the one of a pair's downward arrow at its left."""
    lines = edge_lines(edge.text if number in around.named else edge.label)
    facts = placed.facts
    if placed.is_turned:
        yield from _label_below(placed, number, lines, around)
        return
    solid = {twin: other for other, twin in facts.twins.items()}.get(number, number)
    is_lane = number in around.labels
    box = around.labels[number] if is_lane else placed.labels[solid]
    is_paired = solid in facts.twins and not is_lane
    reach = style.LABEL_GAP + (pair_shift(placed) if is_paired else 0.0)
    x = box.center[0] if is_paired else box.left
    for line, baseline in zip(lines, label_baselines(len(lines)), strict=True):
        y = box.center[1] + font.CAP_HEIGHT * style.SHAPE_SIZE / 2 + baseline
        if is_paired and number == solid:
            yield DrawnText(line, x - reach - line.width, y, align=1.0)
        else:
            yield DrawnText(line, x + reach, y)


def _label_below(
    placed: PlacedFigure, number: int, lines: Sequence[TextLine], around: Lanes
) -> Iterator[DrawnText]:
    """Set a label below its level line; the one of a pair's forward arrow above it."""
    twins = placed.facts.twins
    solid = {twin: other for other, twin in twins.items()}.get(number, number)
    is_lane = number in around.labels
    box = around.labels[number] if is_lane else placed.labels[solid]
    baselines = label_baselines(len(lines))
    y = box.top + style.LABEL_GAP_BELOW
    if solid in twins and not is_lane:
        reach = style.LABEL_GAP_BELOW + pair_shift(placed)
        height = lines[0].height + baselines[-1] - baselines[0]
        y = box.center[1] + (-reach - height if number == solid else reach)
    for line, baseline in zip(lines, baselines, strict=True):
        x = box.center[0] - line.width / 2
        yield DrawnText(line, x, y + lines[0].ascent + baseline - baselines[0], align=0.5)


def bounds(part: DrawnShape | DrawnText) -> Box:
    """Return the box of everything drawn."""
    if isinstance(part, DrawnShape):
        return part.path.bounds().grown(part.width / 2)
    return line_bounds(part.line, part.x, part.y)


# Several small figures on one page, in rows, each row under a title of its own.


_BESIDE: Final = 2  # rows of figures that are side by side
_FIGURE_GAP: Final = 36.0  # between figures
_BELOW_ROW_HEADING: Final = 12.0


def sheet(whole: Figure, rows: Sequence[Sequence[Figure]]) -> Display:
    """Draw rows of figures, two side by side in each row, with one title and one legend."""
    placed = [[run_engine.layout(figure) for figure in row] for row in rows]
    bodies = [[body(one) for one in row] for row in placed]
    boxes = [[_box(one) for one in row] for row in bodies]
    tops = [[min(box.top for box in one.nodes.values()) for one in row] for row in placed]
    count = max(map(len, rows))
    widths = [
        max(pair[place].width for pair in boxes[first::_BESIDE])
        for first in range(_BESIDE)
        for place in range(count)
    ]
    elements: list[Element] = []
    top = 0.0
    for start in range(0, len(rows), _BESIDE):
        left = 0.0
        headings = [row[0].title for row in rows[start : start + _BESIDE]]
        for number, heading in enumerate(headings):
            elements.append(_row_heading(heading, left, top))
            for place, parts in enumerate(bodies[start + number]):
                box, width = boxes[start + number][place], widths[number * count + place]
                first = tops[start + number][place]  # text may reach higher
                shift = left + (width - box.width) / 2 - box.left, top + _BELOW_ROW_HEADING - first
                elements += (moved(one, *shift) for one in parts)
                left += width + _FIGURE_GAP
        top += (
            max(box.height for row in boxes[start : start + _BESIDE] for box in row)
            + _BELOW_ROW_HEADING
            + _FIGURE_GAP
        )
    return page(whole, elements)


def _row_heading(text: str, left: float, top: float) -> Element:
    line = typeset(plain(text), style.GROUP_SIZE)
    return Element("", "heading", "", (DrawnText(line, left, top),))


def _box(elements: Sequence[Element]) -> Box:
    return bounding_box([bounds(part) for one in elements for part in one.parts])


# Painting time: rows of workers, a box for each piece of work, and what waits between them.


_BOX_HEIGHT: Final = 22.0
_BOX_GAP: Final = 4.0  # between rows, and around a box in its lane
_CHART_GAP: Final = 26.0  # charts
_BELOW_CHART_HEADING: Final = 9.0
_BOX_ROUNDING: Final = 3.0
_BOX_PADDING: Final = 4.0  # beside the text of the narrowest box


@dataclass(frozen=True, slots=True)
class Work:
    """One piece of work: when, on which row, and the words for a reader who points at it."""

    row: int
    start: int
    end: int
    label: RichText
    title: str
    is_backward: bool


@dataclass(frozen=True, slots=True)
class Timeline:
    """A chart: time runs to the right; where a row has no box, it waits."""

    heading: RichText
    rows: Sequence[str]
    work: Sequence[Work]


def timelines(figure: Figure, charts: Sequence[Timeline]) -> Display:
    """Charts below each other, all at the same scale; the figure has their title alone."""
    work = [each for chart in charts for each in chart.work]
    widths = (typeset(w.label, style.SHAPE_SIZE).width / (w.end - w.start) for w in work)
    unit = max(widths, default=0.0) + 2 * (_BOX_PADDING + _BOX_GAP / 2)
    names = [typeset(plain(row), style.SHAPE_SIZE) for chart in charts for row in chart.rows]
    left = max((name.width for name in names), default=0.0) + 2 * _BOX_PADDING
    top, elements = 0.0, list[Element]()
    for number, chart in enumerate(charts):
        elements += _chart(chart, number, left, top, unit)
        top += _heading_height(chart) + len(chart.rows) * (_BOX_HEIGHT + _BOX_GAP) + _CHART_GAP
    return page(figure, elements)


def _heading_height(chart: Timeline) -> float:
    return typeset(chart.heading, style.GLYPH_SIZE).height + _BELOW_CHART_HEADING


def _chart(chart: Timeline, number: int, left: float, top: float, unit: float) -> Iterator[Element]:
    line = typeset(chart.heading, style.GLYPH_SIZE)
    yield Element("", "heading", "", (DrawnText(line, 0.0, top + line.ascent),))
    top += _heading_height(chart)
    end = max((work.end for work in chart.work), default=0)
    for place, row in enumerate(chart.rows):
        y = top + place * (_BOX_HEIGHT + _BOX_GAP)
        lane = Box(left, y, left + end * unit, y + _BOX_HEIGHT)
        label = typeset(muted(plain(row)), style.SHAPE_SIZE)
        text = text_in((label,), Box(0.0, y, label.width, y + _BOX_HEIGHT), Color.MUTED)
        shape = DrawnShape(rectangle(lane, _BOX_ROUNDING), fill=Color.LANE)
        yield Element(f"row {number}.{place}", "group", row, (shape, *text))
    for work in chart.work:
        y = top + work.row * (_BOX_HEIGHT + _BOX_GAP)
        box = Box(left + work.start * unit, y, left + work.end * unit, y + _BOX_HEIGHT).grown(
            -_BOX_GAP / 2
        )
        fill, edge = (Color.BLOCK, Color.BLOCK_LINE)
        if work.is_backward:
            fill, edge = (Color.BACKGROUND, Color.BACKWARD)
        outline = DrawnShape(rectangle(box, _BOX_ROUNDING), fill, edge, style.LINE_WIDTH)
        text = text_in((typeset(work.label, style.SHAPE_SIZE),), box)
        op = f"{number}.{work.row} {characters(work.label)}"
        yield Element(op, "node", work.title, (outline, *text))


# The side of a label in pictures that have its line and not yet the way back beside that.


_NEAR: Final = style.LABEL_GAP + 1.0  # a label is that near to the line that it belongs to

_Part = tuple[Point, Point]


def beside_own_line(element: Element, back: Element) -> Element:
    """Return an edge whose label is next to its own line, where it was next to the way back."""
    own, other = list(_straight(element)), list(_straight(back))
    parts = (_shift_label(part, own, other) for part in element.parts)
    return replace(element, parts=tuple(parts))


def _shift_label(
    part: DrawnShape | DrawnText, own: Iterable[_Part], other: Iterable[_Part]
) -> DrawnShape | DrawnText:
    if not isinstance(part, DrawnText):
        return part
    box = line_bounds(part.line, part.x, part.y)
    if any(_facing_axis(box, one) is not None for one in own):
        return part
    near = [(axis, one) for one in other if (axis := _facing_axis(box, one)) is not None]
    shifts = [
        mine[0][axis] - back[0][axis]
        for axis, back in near
        for mine in own
        if mine[0][axis] == mine[1][axis] and _overlap(mine, box, axis)
    ]
    if not shifts:
        return part
    shift = min(shifts, key=abs)
    return replace(part, x=part.x + shift) if near[0][0] == 0 else replace(part, y=part.y + shift)


def _straight(element: Element) -> Iterator[_Part]:
    """Yield the upright and the level parts of an edge's lines."""
    for part in element.parts:
        if isinstance(part, DrawnShape) and not part.path.closed:
            for a, b in pairwise(path_points(part.path)):
                if a[0] == b[0] or a[1] == b[1]:
                    yield a, b


def _facing_axis(box: Box, part: _Part) -> int | None:
    """Return across which axis a box is next to a part of a line, None if it is not."""
    axis = 0 if part[0][0] == part[1][0] else 1
    low, high = (box.left, box.right) if axis == 0 else (box.top, box.bottom)
    is_near = low - _NEAR <= part[0][axis] <= high + _NEAR
    return axis if is_near and _overlap(part, box, axis) else None


def _overlap(part: _Part, box: Box, axis: int) -> bool:
    """Return whether a part of a line runs along a box, somewhere at its side."""
    low, high = (box.top, box.bottom) if axis == 0 else (box.left, box.right)
    start, end = sorted((part[0][1 - axis], part[1][1 - axis]))
    return start < high and low < end


# A series of pictures for slides: each shows one operation more, all in one layout.


_TEXTS: Final = (NodeKind.TENSOR, NodeKind.SAVED, NodeKind.NOTE)
_OF_RANK: Final = re.compile(r" [@#]\d+$")  # behind the id of a node of one of several columns


def step_by_step(figure: Figure, display: Display) -> tuple[Display, ...]:
    """Return pictures of the first operation, of the first two and so on.

    A tensor comes with the first operation that takes it, or with the one that gives it. Gradients
    of an overview come after all operations, from the last of these to the first. The last picture
    is the whole one. A label is beside its own line until the way back comes between them.
    """
    order = _StepOrder.of(figure)
    steps = [order.step(element) for element in display.elements]
    numbers = sorted({step for step in steps if step > 0})
    pairs = list(zip(steps, display.elements, strict=True))
    ways = {e.wire.ends: (step, e) for step, e in pairs if e.wire is not None}
    backs = [ways.get(e.wire.back) if e.wire else None for e in display.elements]
    return tuple(
        replace(
            display,
            title=f"{display.title}, step {count} of {len(numbers)}",
            elements=tuple(
                element if back is None or back[0] <= number else beside_own_line(element, back[1])
                for (step, element), back in zip(pairs, backs, strict=True)
                if step <= number
            ),
        )
        for count, number in enumerate(numbers, 1)
    )


@dataclass(frozen=True, slots=True)
class _StepOrder:
    """The number of the step with which each node and each frame comes; `dashed` are edges back."""

    nodes: Mapping[str, int]
    frames: Mapping[str, int]
    dashed: frozenset[tuple[str, str]]
    has_columns: bool

    @classmethod
    def of(cls, figure: Figure) -> _StepOrder:
        """Number the operations of a figure; ranks side by side share the numbers of one column."""
        column = first_column(figure)
        operations = [node.id for node in column.nodes if node.kind not in _TEXTS]
        nodes = {node: number for number, node in enumerate(operations, 1)}
        solid = [edge for edge in column.edges if edge.style is not EdgeStyle.DASHED]
        dashed = (edge for edge in column.edges if edge.style is EdgeStyle.DASHED)
        for one in column.nodes:
            if one.kind in _TEXTS:
                makers = (nodes[e.tail] for e in solid if e.head == one.id and e.tail in nodes)
                takers = (nodes[e.head] for e in solid if e.tail == one.id and e.head in nodes)
                nodes[one.id] = max(makers, default=0) or min(takers, default=1)
        nodes |= {b.node.id: 1 for b in figure.bars if b.where is BarPlace.ABOVE}
        nodes |= {b.node.id: len(operations) for b in figure.bars if b.where is BarPlace.BELOW}
        has_columns = bool(figure.columns)
        framed = {group.id: group.nodes for group in figure.groups}
        framed |= {f"brace {number}": one.nodes for number, one in enumerate(figure.braces)}
        frames = {
            frame: min(nodes[_OF_RANK.sub("", node) if has_columns else node] for node in inside)
            for frame, inside in framed.items()
        }
        return cls(nodes, frames, frozenset((e.tail, e.head) for e in dashed), has_columns)

    def step(self, element: Element) -> int:
        """Return the step with which an element comes, 0 for what is in every picture."""
        if element.kind == "group":
            return self.frames[element.op]
        if element.wire is None:
            return self.nodes[self._own(element.op)] if element.kind.startswith("node ") else 0
        tail, head = self._own(element.wire.tail), self._own(element.wire.head)
        if (tail, head) in self.dashed:
            return 2 * max(self.nodes.values()) + 1 - self.nodes[tail]
        return max(self.nodes[tail], self.nodes[head])

    def _own(self, node: str) -> str:
        return _OF_RANK.sub("", node) if self.has_columns else node
