"""Several small figures on one page, in rows, each row under a title of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from xg.figures.draw.display import Display, DrawnText, Element
from xg.figures.draw.move import moved
from xg.figures.draw.paint import body, bounds, page
from xg.figures.draw.typeset import typeset
from xg.figures.layout import run_engine
from xg.figures.model import style
from xg.figures.model.figure import Figure
from xg.figures.model.geometry import Box, bounding_box
from xg.figures.model.richtext import plain

_BESIDE: Final = 2  # rows of figures that are side by side
_GAP: Final = 36.0  # between figures
_BELOW_HEADING: Final = 12.0


def sheet(whole: Figure, rows: Sequence[Sequence[Figure]]) -> Display:
    """Draw rows of figures, two rows side by side; title and legend are those of the whole."""
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
            elements.append(_heading(heading, left, top))
            for place, parts in enumerate(bodies[start + number]):
                box, width = boxes[start + number][place], widths[number * count + place]
                first = tops[start + number][place]  # text may reach higher
                shift = left + (width - box.width) / 2 - box.left, top + _BELOW_HEADING - first
                elements += (moved(one, *shift) for one in parts)
                left += width + _GAP
        top += (
            max(box.height for row in boxes[start : start + _BESIDE] for box in row)
            + _BELOW_HEADING
            + _GAP
        )
    return page(whole, elements)


def _heading(text: str, left: float, top: float) -> Element:
    line = typeset(plain(text), style.GROUP_SIZE)
    return Element("", "heading", "", (DrawnText(line, left, top),))


def _box(elements: Sequence[Element]) -> Box:
    return bounding_box([bounds(part) for one in elements for part in one.parts])
