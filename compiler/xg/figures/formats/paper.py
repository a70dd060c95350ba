"""Sheets of paper that a long figure is printed on, cut where only lines are cut."""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from itertools import pairwise
from typing import Final

from xg.diagnostics.lazy_dataclass import dataclass
from xg.figures.draw.display import Display, DrawnText, Element
from xg.figures.draw.typeset import line_bounds
from xg.figures.model.geometry import Box

_MARGIN: Final = 36.0  # of a sheet, above and below, left and right
_ROOM: Final = 2.0  # between a cut and a text or a glyph


class Paper(Enum):
    """Sizes of paper, in points."""

    a4 = (595.28, 841.89)
    letter = (612.0, 792.0)

    @property
    def room(self) -> tuple[float, float]:
        """Return the width and the height inside the margins."""
        width, height = self.value
        return width - 2 * _MARGIN, height - 2 * _MARGIN


@dataclass(frozen=True, slots=True)
class Sheet:
    """A page: its size, which part of a figure is on it, and where."""

    width: float
    height: float
    top: float
    bottom: float
    x: float = 0.0
    y: float = 0.0


def one_sheet(display: Display) -> list[Sheet]:
    """Return the page that has a figure's own size."""
    return [Sheet(display.width, display.height, 0.0, display.height)]


def sheets_of(display: Display, paper: Paper) -> list[Sheet]:
    """Return the pages of a figure, in its order, each as full as can be."""
    width, height = paper.value
    cuts = [0.0, *_cuts(display, paper.room[1]), display.height]
    x = (width - display.width) / 2
    return [Sheet(width, height, top, bottom, x, _MARGIN) for top, bottom in pairwise(cuts)]


def _cuts(display: Display, room: float) -> Iterator[float]:
    """Yield where pages end: as low as they can, where no text and no glyph is cut."""
    solid = [box for element in display.elements for box in _solid(element)]
    top = 0.0
    while display.height - top > room:
        cut = top + room
        across = [box for box in solid if box.top < cut < box.bottom]
        while across and min(box.top for box in across) > top:
            cut = min(box.top for box in across)
            across = [box for box in solid if box.top < cut < box.bottom]
        top = top + room if across else cut  # what is higher than a page is cut
        yield top


def _solid(element: Element) -> Iterator[Box]:
    """Yield the room of texts and glyphs, not that of lines and frames."""
    is_node = element.kind.startswith("node ") or element.kind == "legend"
    for part in element.parts:
        if isinstance(part, DrawnText):
            yield line_bounds(part.line, part.x, part.y).grown(_ROOM)
        elif is_node:
            yield part.path.bounds().grown(_ROOM)
