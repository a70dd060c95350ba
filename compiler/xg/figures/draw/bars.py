"""Bars across columns: their text where no line is, and how much room columns leave for it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby, pairwise
from typing import Final

from xg.diagnostics.lazy_dataclass import dataclass
from xg.figures.draw.display import DrawnShape, Element
from xg.figures.draw.glyph import boxed_text, frame
from xg.figures.draw.hairlines import free_ranges
from xg.figures.layout.columns import bar_id
from xg.figures.layout.measure import node_lines
from xg.figures.model import style
from xg.figures.model.figure import FigureBar
from xg.figures.model.geometry import Box
from xg.figures.model.richtext import characters

CLEAR: Final = 5.0  # between a text and what is beside it
_BESIDE: Final = 2.0  # a line so near to a text is left out


@dataclass(frozen=True, slots=True)
class BarRoom:
    """A bar with more text than a column has free room for; it has some before and behind lines."""

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
    text_room = room.grown(width / 2 + _BESIDE)
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
