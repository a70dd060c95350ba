"""Painting time: rows of workers, a box for each piece of work, and what waits between them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from xg.diagnostics.lazy_dataclass import dataclass
from xg.figures.draw.display import Display, DrawnShape, DrawnText, Element
from xg.figures.draw.glyph import text_in
from xg.figures.draw.paint import page
from xg.figures.draw.typeset import typeset
from xg.figures.model import style
from xg.figures.model.figure import Figure
from xg.figures.model.geometry import Box, rectangle
from xg.figures.model.richtext import RichText, characters, muted, plain
from xg.figures.model.style import Color

_HEIGHT: Final = 22.0
_GAP: Final = 4.0  # between rows, and around a box in its lane
_BETWEEN: Final = 26.0  # charts
_BELOW_HEADING: Final = 9.0
_ROUNDING: Final = 3.0
_ROOM: Final = 4.0  # beside the text of the narrowest box


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
    unit = max(widths, default=0.0) + 2 * (_ROOM + _GAP / 2)
    names = [typeset(plain(row), style.SHAPE_SIZE) for chart in charts for row in chart.rows]
    left = max((name.width for name in names), default=0.0) + 2 * _ROOM
    top, elements = 0.0, list[Element]()
    for number, chart in enumerate(charts):
        elements += _chart(chart, number, left, top, unit)
        top += _heading_height(chart) + len(chart.rows) * (_HEIGHT + _GAP) + _BETWEEN
    return page(figure, elements)


def _heading_height(chart: Timeline) -> float:
    return typeset(chart.heading, style.GLYPH_SIZE).height + _BELOW_HEADING


def _chart(chart: Timeline, number: int, left: float, top: float, unit: float) -> Iterator[Element]:
    line = typeset(chart.heading, style.GLYPH_SIZE)
    yield Element("", "heading", "", (DrawnText(line, 0.0, top + line.ascent),))
    top += _heading_height(chart)
    end = max((work.end for work in chart.work), default=0)
    for place, row in enumerate(chart.rows):
        y = top + place * (_HEIGHT + _GAP)
        lane = Box(left, y, left + end * unit, y + _HEIGHT)
        label = typeset(muted(plain(row)), style.SHAPE_SIZE)
        text = text_in((label,), Box(0.0, y, label.width, y + _HEIGHT), Color.MUTED)
        shape = DrawnShape(rectangle(lane, _ROUNDING), fill=Color.LANE)
        yield Element(f"row {number}.{place}", "group", row, (shape, *text))
    for work in chart.work:
        y = top + work.row * (_HEIGHT + _GAP)
        box = Box(left + work.start * unit, y, left + work.end * unit, y + _HEIGHT).grown(-_GAP / 2)
        fill, edge = (Color.BLOCK, Color.BLOCK_LINE)
        if work.is_backward:
            fill, edge = (Color.BACKGROUND, Color.BACKWARD)
        outline = DrawnShape(rectangle(box, _ROUNDING), fill, edge, style.LINE_WIDTH)
        text = text_in((typeset(work.label, style.SHAPE_SIZE),), box)
        op = f"{number}.{work.row} {characters(work.label)}"
        yield Element(op, "node", work.title, (outline, *text))
