"""Painting: a placed figure becomes a display list."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from math import ceil

from xg.figures.draw import font
from xg.figures.draw.arrow import arrow
from xg.figures.draw.display import Display, DrawnShape, DrawnText, Element, Wire
from xg.figures.draw.glyph import glyph
from xg.figures.draw.move import moved
from xg.figures.draw.typeset import TextLine, line_bounds, typeset, wrapped
from xg.figures.layout.lanes import Lanes, lanes
from xg.figures.layout.measure import edge_line
from xg.figures.layout.placed import PlacedFigure
from xg.figures.layout.request import pair_shift
from xg.figures.model import style
from xg.figures.model.figure import Figure, FigureEdge
from xg.figures.model.geometry import Box, DrawnPath, bounding_box, rectangle
from xg.figures.model.legend import legend
from xg.figures.model.refusals import LEAST_SIZE, TooNarrow
from xg.figures.model.richtext import RichText, bold, characters, plain, title_text
from xg.figures.model.style import Color

_GROUP_ROUNDING = 9.0
_GROUP_GAP = 3.0
_BELOW_TITLE = 14.0
_PIXEL = 0.75  # points: a page is whole pixels large
_TITLE_LEADING = 6.0


def paint(placed: PlacedFigure) -> Display:
    """Draw a placed figure with its title above and, if wanted, its legend below."""
    return page(placed.figure, body(placed))


def body(placed: PlacedFigure) -> list[Element]:
    """Draw a placed figure without title and legend."""
    around = lanes(placed)
    elements = [*_frames(placed, around), *_edges(placed, placed.paths, around)]
    elements += (
        Element(node.id, f"node {node.kind.name.lower()}", node.title or characters(node.label),
                glyph(node, placed.nodes[node.id]))
        for node in placed.figure.nodes
    )  # fmt: skip
    return elements


def page(figure: Figure, body: list[Element]) -> Display:
    """Put the title above what is drawn and, if wanted, the legend below it.

    A page of a given width has narrow margins and a title in several lines; what is still too wide
    is made smaller. Raises TooNarrow where its text would be too small to read.
    """
    around = bounding_box([bounds(part) for one in body for part in one.parts] or [Box(0, 0, 1, 1)])
    margin = style.NARROW_MARGIN if figure.width else style.PAGE_MARGIN
    room = figure.width - 2 * margin if figure.width else 0.0
    scale = min(1.0, room / around.width) if figure.width else 1.0
    least = LEAST_SIZE / _smallest(body) if figure.width else 0.0
    if scale < least:
        raise TooNarrow(figure.title, least * around.width + 2 * margin)
    elements, top, widest = _heading(figure, margin, room)
    inner = max(around.width * scale, widest)
    width = figure.width or inner + 2 * margin
    # A figure narrower than its title is centred under it.
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
    height = ceil(height / _PIXEL - 1e-6) * _PIXEL
    return Display(width, height, name, figure.description, tuple(elements))


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
        top += line.ascent + (_TITLE_LEADING if room else 0.0)
    widest = max(part.line.width for part in parts)
    top += _BELOW_TITLE - (_TITLE_LEADING if room else 0.0)
    return [Element("", "title", "", tuple(parts))], top, widest


def _title_lines(figure: Figure, room: float) -> Sequence[RichText]:
    """Return the lines of a title: its subtitle begins one of its own if that costs no line."""
    whole = title_text(figure.title, figure.subtitle)
    if not room:
        return (whole,)
    running = list(wrapped(whole, style.TITLE_SIZE, room))
    if not figure.subtitle:
        return running
    texts = (*bold(figure.title), *plain(" — ")), plain(figure.subtitle)
    parted = [line for text in texts for line in wrapped(text, style.TITLE_SIZE, room)]
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
            parts.append(replace(_label(placed, number, edge, around), color=color))
        name = f"{edge.tail}->{edge.head}"
        yield Element(name, "edge", characters(edge.text), tuple(parts), wire(edge))


def wire(edge: FigureEdge) -> Wire:
    """Return what an edge joins."""
    tail, value = edge.value
    return Wire(edge.tail, edge.head, f"{value} of {tail}", edge.output)


def _label(placed: PlacedFigure, number: int, edge: FigureEdge, around: Lanes) -> DrawnText:
    """Set a label at the right of its line; the one of a pair's downward arrow at its left."""
    line = edge_line(edge.text if number in around.named else edge.label)
    facts = placed.facts
    if placed.is_turned:
        return _label_below(placed, number, line, around)
    reach = style.LABEL_GAP
    if number in around.labels:
        box = around.labels[number]
        return DrawnText(line, box.left + reach, box.center[1] + _half_capital())
    solid = {twin: other for other, twin in facts.twins.items()}.get(number, number)
    box = placed.labels[solid]
    if solid not in facts.twins:
        return DrawnText(line, box.left + reach, box.center[1] + _half_capital())
    reach += pair_shift(placed)
    y = box.center[1] + _half_capital()
    if number == solid:
        return DrawnText(line, box.center[0] - reach - line.width, y, align=1.0)
    return DrawnText(line, box.center[0] + reach, y)


def _label_below(placed: PlacedFigure, number: int, line: TextLine, around: Lanes) -> DrawnText:
    """Set a label below its level line; the one of a pair's forward arrow above it."""
    twins = placed.facts.twins
    solid = {twin: other for other, twin in twins.items()}.get(number, number)
    is_lane = number in around.labels
    box = around.labels[number] if is_lane else placed.labels[solid]
    x, y = box.center[0] - line.width / 2, box.top + style.LABEL_GAP_BELOW
    if solid in twins and not is_lane:
        reach = style.LABEL_GAP_BELOW + pair_shift(placed)
        y = box.center[1] + (-reach - line.height if number == solid else reach)
    return DrawnText(line, x, y + line.ascent, align=0.5)


def _half_capital() -> float:
    return font.CAP_HEIGHT * style.SHAPE_SIZE / 2


def bounds(part: DrawnShape | DrawnText) -> Box:
    """Return the box of everything drawn."""
    if isinstance(part, DrawnShape):
        return part.path.bounds().grown(part.width / 2)
    return line_bounds(part.line, part.x, part.y)
