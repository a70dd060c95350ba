"""Bars across columns in DOT: tables with a port for every column, above and below the text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from xg import escape
from xg.backends.graphviz import style
from xg.backends.graphviz.across import Names, alone, bar_id, segments
from xg.backends.graphviz.dot_label import quiet_lines
from xg.backends.graphviz.figure import Figure, FigureBar
from xg.backends.graphviz.measure import label_size
from xg.backends.graphviz.structure import leveled, structure
from xg.backends.graphviz.style import Color, Theme
from xg.backends.graphviz.unit import units

_BETWEEN: Final = 30.0  # columns


@dataclass(frozen=True, slots=True)
class Ports:
    """Where a column's arrows meet the bars: by the DOT text's tail below, by its head above."""

    columns: Mapping[tuple[str, str], int]

    @classmethod
    def of(cls, figure: Figure) -> Ports:
        """Return the ports of a figure; there are none where no ranks stand side by side."""
        bars = {bar.node.id: bar for bar in figure.bars}
        found: dict[tuple[str, str], int] = {}
        for place, column in enumerate(figure.columns):
            names = Names(place, bars)
            for edge in column.edges:
                for one, other in ((edge.tail, edge.head), (edge.head, edge.tail)):
                    if one in bars:
                        found[names.of(one), names.of(other)] = place
                        if other in bars:
                            found[names.of(other), names.of(one)] = place
        return cls(found)

    def tail(self, node: str, other: str) -> str:
        """Return how an arrow's tail is written."""
        return self._end(node, other, "b", "s")

    def head(self, node: str, other: str) -> str:
        """Return how an arrow's head is written."""
        return self._end(node, other, "t", "n")

    def _end(self, node: str, other: str, row: str, side: str) -> str:
        place = self.columns.get((node, other))
        name = escape.dot_string(node)
        return name if place is None else f"{name}:{row}{place}:{side}"


def bar_labels(figure: Figure, theme: Theme) -> dict[str, str]:
    """Return the tables of all bars, by the ids that they have among all nodes."""
    if not figure.columns:
        return {}
    width = round(_column_width(figure))
    return {
        bar_id(bar, number): _table(bar, span, width, theme)
        for bar in figure.bars
        for number, span in enumerate(bar.spans)
    }


def levels(figure: Figure) -> Iterator[str]:
    """Yield what keeps other nodes out of the rows of bars."""
    bars = {bar.node.id: bar for bar in figure.bars}
    for place, column in enumerate(figure.columns):
        names = Names(place, bars)
        for above, below in leveled(alone(figure, column)):
            one, other = names.of(above), names.of(below)
            yield f"{escape.dot_string(one)} -> {escape.dot_string(other)} [style=invis, weight=0];"
        yield from _last(figure, names)


def _last(figure: Figure, names: Names) -> Iterator[str]:
    """Yield what keeps bars below all columns there."""
    below = [bar.node.id for bar in figure.bars if bar.is_below]
    rows = [*segments(figure)[-1:], *([one] for one in below)]
    for above, under in pairwise(rows):
        for node in above:
            one, other = escape.dot_string(names.of(node)), escape.dot_string(names.of(under[0]))
            yield f"{one} -> {other} [style=invis, weight=0];"


def _column_width(figure: Figure) -> float:
    """Return about how wide a column comes out."""
    column = alone(figure, figure.columns[0])
    boxes = units(column, structure(column))
    left = max(unit.reach for unit in boxes)
    right = max(unit.width - unit.reach for unit in boxes)
    labels = max((label_size(edge.label).width for edge in column.edges), default=0.0)
    return max(left, labels) + max(right, labels) + _BETWEEN


def _table(bar: FigureBar, span: tuple[int, int], width: int, theme: Theme) -> str:
    look = style.NODE_STYLES[bar.node.kind]
    fill, line = theme.colors[look.fill], theme.colors[look.line]
    first, last = span
    rows = {
        row: "".join(
            f'<TD PORT="{row}{place}" WIDTH="{width}" HEIGHT="6" FIXEDSIZE="TRUE"></TD>'
            for place in range(first, last + 1)
        )
        for row in "tb"
    }
    text = f'<TD COLSPAN="{last - first + 1}">{quiet_lines(bar.node, theme, Color.INK)}</TD>'
    head = (
        f'BORDER="1" COLOR="{line}" BGCOLOR="{fill}" CELLBORDER="0" CELLSPACING="0" '
        'CELLPADDING="0" STYLE="ROUNDED"'
    )
    inside = f"<TR>{rows['t']}</TR><TR>{text}</TR><TR>{rows['b']}</TR>"
    return f"<<TABLE {head}>{inside}</TABLE>>"
