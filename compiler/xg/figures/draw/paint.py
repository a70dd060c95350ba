"""Painting: a placed figure becomes a display list."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from math import ceil

from xg.figures.draw import font
from xg.figures.draw.arrow import arrow
from xg.figures.draw.display import Display, DrawnShape, DrawnText, Element, Wire
from xg.figures.draw.glyph import glyph
from xg.figures.draw.move import moved
from xg.figures.draw.typeset import TextLine, typeset
from xg.figures.layout.lanes import Lanes, lanes
from xg.figures.layout.measure import edge_line
from xg.figures.layout.placed import PlacedFigure
from xg.figures.layout.request import pair_shift
from xg.figures.model import style
from xg.figures.model.figure import Figure, FigureEdge
from xg.figures.model.geometry import Box, DrawnPath, bounding_box, rectangle
from xg.figures.model.legend import legend
from xg.figures.model.richtext import characters, title_text
from xg.figures.model.structure import EdgePlace
from xg.figures.model.style import Color

_GROUP_ROUNDING = 9.0
_GROUP_GAP = 3.0
_BELOW_TITLE = 14.0
_PIXEL = 0.75  # points: a page is whole pixels large


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
    """Put the title above what is drawn and, if wanted, the legend below it."""
    around = bounding_box([bounds(part) for one in body for part in one.parts] or [Box(0, 0, 1, 1)])
    heading = typeset(title_text(figure.title, figure.subtitle), style.TITLE_SIZE)
    top = style.PAGE_MARGIN
    width = around.width + 2 * style.PAGE_MARGIN
    above: list[Element] = []
    if figure.has_heading:
        text = DrawnText(heading, style.PAGE_MARGIN, style.PAGE_MARGIN + heading.ascent)
        above.append(Element("", "title", "", (text,)))
        top += heading.ascent + _BELOW_TITLE
        width = max(around.width, heading.width) + 2 * style.PAGE_MARGIN
    # A figure narrower than its title is centred under it.
    shift = (width - around.width) / 2 - around.left, top - around.top
    elements = [*above, *(moved(one, *shift) for one in body)]
    height = top + around.height + style.PAGE_MARGIN
    if figure.has_key:
        below, extent = legend(figure, max(width, style.LEAST_LEGEND_WIDTH))
        elements += (moved(one, style.PAGE_MARGIN, height) for one in below)
        width = max(width, extent.width + 2 * style.PAGE_MARGIN)
        height += extent.height + style.PAGE_MARGIN
    name = characters(title_text(figure.title, figure.subtitle))
    width, height = (ceil(size / _PIXEL - 1e-6) * _PIXEL for size in (width, height))
    return Display(width, height, name, figure.description, tuple(elements))


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
        parts: list[DrawnShape | DrawnText] = [*arrow(paths[number], edge.style, edge.mark)]
        if edge.label:
            color = style.MARKS.get(edge.mark, Color.INK)
            parts.append(replace(_label(placed, number, edge, around), color=color))
        name = f"{edge.tail}->{edge.head}"
        yield Element(name, "edge", characters(edge.label), tuple(parts), wire(edge))


def wire(edge: FigureEdge) -> Wire:
    """Return what an edge joins."""
    tail, value = edge.value
    return Wire(edge.tail, edge.head, f"{value} of {tail}")


def _label(placed: PlacedFigure, number: int, edge: FigureEdge, around: Lanes) -> DrawnText:
    """Set a label at the right of its line; the one of a pair's downward arrow at its left."""
    line, facts = edge_line(edge.label), placed.facts
    reach = style.LABEL_GAP
    if facts.places[number] is EdgePlace.LANE:
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


def _half_capital() -> float:
    return font.CAP_HEIGHT * style.SHAPE_SIZE / 2


def bounds(part: DrawnShape | DrawnText) -> Box:
    """Return the box of everything drawn."""
    if isinstance(part, DrawnShape):
        return part.path.bounds().grown(part.width / 2)
    return line_bounds(part.line, part.x, part.y)


def line_bounds(line: TextLine, x: float, y: float) -> Box:
    """Return the box of a set line."""
    return Box(x, y - line.ascent, x + line.width, y + line.descent)
