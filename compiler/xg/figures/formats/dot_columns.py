"""Bars across columns in DOT: tables with a port for every column, above and below the text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Final

from xg.diagnostics import escape
from xg.diagnostics.lazy_dataclass import dataclass
from xg.figures.formats.dot_label import quiet_lines
from xg.figures.layout.columns import ColumnIds, bar_id, segments, single_column
from xg.figures.layout.measure import label_size
from xg.figures.layout.unit import units
from xg.figures.model import style
from xg.figures.model.figure import BarPlace, EdgeRole, EdgeStyle, Figure, FigureBar
from xg.figures.model.structure import leveled, parted, structure
from xg.figures.model.style import Color, Theme

_BETWEEN: Final = 30.0  # columns
_CELL: Final = 16  # where a lane passes a bar
_PAD: Final = "-"  # where nothing does


@dataclass(frozen=True, slots=True)
class SideRail:
    """The bars that a lane passes, and its cell in each."""

    bars: tuple[str, ...]
    cell: str

    def stops(self) -> Iterator[tuple[str, str]]:
        """Yield for every bar where the line goes in and where it comes out."""
        for bar in map(escape.dot_string, self.bars):
            yield f"{bar}:t{self.cell}:n", f"{bar}:b{self.cell}:s"


@dataclass(frozen=True, slots=True)
class Ports:
    """Where a column's arrows meet the bars: by the DOT text's tail below, by its head above.

    `ways` are those of lanes, by their ends.
    """

    columns: Mapping[tuple[str, str], int]
    ways: Mapping[tuple[str, str], SideRail]

    @classmethod
    def of(cls, figure: Figure) -> Ports:
        """Return the ports of a figure; there are none where no ranks are side by side."""
        bars = {bar.node.id: bar for bar in figure.bars}
        places: dict[tuple[str, str], int] = {}
        for place, column in enumerate(figure.columns):
            names = ColumnIds(place, bars)
            for edge in column.edges:
                for one, other in ((edge.tail, edge.head), (edge.head, edge.tail)):
                    if one in bars:
                        places[names.of(one), names.of(other)] = place
                        if other in bars:
                            places[names.of(other), names.of(one)] = place
        return cls(places, dict(_ways(figure)))

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


def _ways(figure: Figure) -> Iterator[tuple[tuple[str, str], SideRail]]:
    if not figure.columns:
        return
    bars = {bar.node.id: bar for bar in figure.bars}
    first = single_column(figure, figure.columns[0])
    before = {level: number for number, level in enumerate(first.levels)}
    after = {level: number + 1 for level, number in before.items()}
    stands = {node: n for n, segment in enumerate(parted(first)) for node in segment}
    for place, column in enumerate(figure.columns):
        names = ColumnIds(place, bars)
        for edge in column.edges:
            if edge.role is EdgeRole.RESIDUAL and edge.style is not EdgeStyle.DASHED:
                begin = after.get(edge.tail, stands.get(edge.tail, 0))
                end = before.get(edge.head, stands.get(edge.head, 0))
                passed = tuple(names.of(level) for level in first.levels[begin:end])
                yield (names.of(edge.tail), names.of(edge.head)), SideRail(passed, f"{place}l")


def bar_labels(figure: Figure, theme: Theme) -> dict[str, str]:
    """Return the tables of all bars, by the ids that they have among all nodes."""
    if not figure.columns:
        return {}
    left, right = _reach(figure)
    roles = {edge.role for edge in figure.columns[0].edges}
    cells = [
        *([("l", _CELL)] if EdgeRole.RESIDUAL in roles else []),
        (_PAD, left - _CELL),
        ("", 2 * _CELL),
        (_PAD, right - _CELL),
    ]
    return {
        bar_id(bar, number): _table(bar, span, cells, theme)
        for bar in figure.bars
        for number, span in enumerate(bar.spans)
    }


def levels(figure: Figure) -> Iterator[str]:
    """Yield what keeps other nodes out of the rows of bars."""
    bars = {bar.node.id: bar for bar in figure.bars}
    for place, column in enumerate(figure.columns):
        names = ColumnIds(place, bars)
        for above, below in leveled(single_column(figure, column)):
            one, other = names.of(above), names.of(below)
            yield f"{escape.dot_string(one)} -> {escape.dot_string(other)} [style=invis, weight=0];"
        yield from _outside(figure, names)


def ordered(figure: Figure) -> Iterator[str]:
    """Yield what keeps the columns in their order: what each has first between two bars."""
    bars = {bar.node.id: bar for bar in figure.bars}
    for segment in segments(figure) if figure.columns else ():
        places = range(len(figure.columns))
        row = " -> ".join(escape.dot_string(ColumnIds(n, bars).of(segment[0])) for n in places)
        yield f"{{ rank=same; edge [style=invis]; {row}; }}"


def _outside(figure: Figure, names: ColumnIds) -> Iterator[str]:
    """Yield what keeps bars above and below all columns there."""
    above = [bar.node.id for bar in figure.bars if bar.where is BarPlace.ABOVE]
    below = [bar.node.id for bar in figure.bars if bar.where is BarPlace.BELOW]
    inside = segments(figure)
    rows = [*([one] for one in above), *inside[:1]], [*inside[-1:], *([one] for one in below)]
    for over, under in (pair for some in rows for pair in pairwise(some)):
        for node in over:
            for other in under:
                one, two = escape.dot_string(names.of(node)), escape.dot_string(names.of(other))
                yield f"{one} -> {two} [style=invis, weight=0];"


def _reach(figure: Figure) -> tuple[int, int]:
    """Return about how far a column reaches to the left and to the right of its middle."""
    column = single_column(figure, figure.columns[0])
    boxes = units(column, structure(column))
    left = max(unit.reach for unit in boxes)
    right = max(unit.width - unit.reach for unit in boxes)
    labels = max((label_size(edge.label, turned=False).width for edge in column.edges), default=0.0)
    return round(max(left, labels)), round(max(right, labels) + _BETWEEN)


def _table(
    bar: FigureBar, span: tuple[int, int], cells: Sequence[tuple[str, int]], theme: Theme
) -> str:
    """Return a bar with the `cells` of each of its columns, by name and width, at both sides."""
    look = style.NODE_STYLES[bar.node.kind]
    fill, line = theme.colors[look.fill], theme.colors[look.line]
    first, last = span
    rows = {
        row: "".join(
            f'<TD{_port(row, place, name)} WIDTH="{width}" HEIGHT="6" FIXEDSIZE="TRUE"></TD>'
            for place in range(first, last + 1)
            for name, width in cells
        )
        for row in "tb"
    }
    count = (last - first + 1) * len(cells)
    text = f'<TD COLSPAN="{count}">{quiet_lines(bar.node, theme, Color.INK)}</TD>'
    head = (
        f'BORDER="1" COLOR="{line}" BGCOLOR="{fill}" CELLBORDER="0" CELLSPACING="0" '
        'CELLPADDING="0" STYLE="ROUNDED"'
    )
    inside = f"<TR>{rows['t']}</TR><TR>{text}</TR><TR>{rows['b']}</TR>"
    return f"<<TABLE {head}>{inside}</TABLE>>"


def _port(row: str, place: int, name: str) -> str:
    return "" if name == _PAD else f' PORT="{row}{place}{name}"'
