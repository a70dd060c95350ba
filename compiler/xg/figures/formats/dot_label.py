"""Write rich text, bars across columns and the legend as Graphviz's HTML labels."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Final

from xg.diagnostics import escape
from xg.diagnostics.lazy_dataclass import dataclass
from xg.figures.draw.glyph import Meaning, label_size, meanings
from xg.figures.layout.placement import units
from xg.figures.model import style
from xg.figures.model.figure import (
    BarPlace,
    EdgeRole,
    EdgeStyle,
    Emphasis,
    Figure,
    FigureBar,
    FigureNode,
    NodeKind,
)
from xg.figures.model.richtext import RichText, StyledRun, scripts
from xg.figures.model.structure import (
    ColumnIds,
    bar_id,
    leveled,
    parted,
    segments,
    single_column,
    structure,
)
from xg.figures.model.style import Color, Theme

_SCRIPT_SIZE: Final = 7
_NESTED_SIZE: Final = 6
_SIGNS: Final = {
    NodeKind.MATMUL: "",
    NodeKind.ADD: "+",
    NodeKind.MUL: "•",
}


def node_label(node: FigureNode, theme: Theme) -> str:
    """Return the label attribute's value for a node."""
    if node.kind in _SIGNS:
        return escape.dot_string(_SIGNS[node.kind])
    if node.kind in (NodeKind.SAVED, NodeKind.NOTE):
        return f"<{html(node.label, theme, Color.MUTED)}>"
    framed = style.NODE_STYLES[node.kind].outline is not style.Outline.NONE
    color = Color.INK if framed else style.MARKS.get(node.mark, Color.INK)
    return f"<{quiet_lines(node, theme, color)}>"


def quiet_lines(node: FigureNode, theme: Theme, color: Color) -> str:
    """Return a node's label with its quiet lines under it."""
    size = f"{style.DETAIL_SIZE:g}"
    quiet = "".join(
        f'<BR/><FONT POINT-SIZE="{size}">{html(text, theme, Color.MUTED)}</FONT>'
        for text in (node.detail, *node.lines)
        if text
    )
    return html(node.label, theme, color) + quiet


def edge_label(text: RichText, theme: Theme, color: Color = Color.INK) -> str:
    """Return the label attribute's value for an edge: a space keeps it off the line."""
    return f"<&nbsp;{html(text, theme, color)}&nbsp;>"


def html(text: RichText, theme: Theme, color: Color) -> str:
    """Return rich text in the few tags that every version of Graphviz draws; empty as a space."""
    return "".join(_run(run, theme, color) for run in text) or " "


def _run(run: StyledRun, theme: Theme, color: Color) -> str:
    inner = escape.dot_html(run.text)
    inner = f"<B>{inner}</B>" if run.bold and inner else inner
    inner = f"<I>{inner}</I>" if run.italic and inner else inner
    below = "".join(
        _script("SUB", escape.dot_html(text), _NESTED_SIZE) if is_nested else escape.dot_html(text)
        for text, is_nested in scripts(run.sub)
    )
    inner += _script("SUB", below, _SCRIPT_SIZE) if below else ""
    inner += _script("SUP", escape.dot_html(run.sup), _SCRIPT_SIZE) if run.sup else ""
    if not inner:
        return ""
    if run.muted:
        shade = theme.colors[Color.MUTED]
        return f'<FONT POINT-SIZE="{style.SHAPE_SIZE:g}" COLOR="{shade}">{inner}</FONT>'
    if run.tag:
        use = Color.COMMUNICATION_LINE if run.tag == "forward" else Color.BACKWARD
        return f'<FONT POINT-SIZE="{style.TAG_SIZE:g}" COLOR="{theme.colors[use]}">{inner}</FONT>'
    return f'<FONT COLOR="{theme.colors[color]}">{inner}</FONT>'


def _script(tag: str, inner: str, size: int) -> str:
    return f'<{tag}><FONT POINT-SIZE="{size}">{inner}</FONT></{tag}>'


# Bars across columns in DOT: tables with a port for every column, above and below the text.


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


# The legend of a DOT text: one label with a table of glyphs and their meanings.


_LEGEND_SIGNS: Final = {
    NodeKind.MATMUL: "●",
    NodeKind.ADD: "⊕",
    NodeKind.MUL: "⊙",
    NodeKind.REDUCE: "Σ",
    NodeKind.SAVED: "X",
    EdgeStyle.DOUBLE: "⇒",
    EdgeStyle.DASHED: "⇢",
}


def legend_label(figure: Figure, theme: Theme) -> str:
    """Return the HTML label of a node that contains the whole legend."""
    rows = "".join(
        f"<TR>{_mark(one, theme)}"
        f'<TD ALIGN="LEFT">{_colored(escape.xml(one.words), theme, Color.MUTED)}</TD></TR>'
        for one in meanings(figure)
    )
    return f'<<TABLE BORDER="0" CELLBORDER="0" CELLSPACING="4" CELLPADDING="1">{rows}</TABLE>>'


def _mark(meaning: Meaning, theme: Theme) -> str:
    kind = meaning.kind
    if isinstance(kind, Emphasis):
        return (
            f"<TD>{_colored('⇢' if kind is Emphasis.WENT else '→', theme, style.MARKS[kind])}</TD>"
        )
    if meaning.symbol:
        color = Color.MUTED if kind is NodeKind.SAVED else Color.INK
        return f"<TD>{html(meaning.symbol, theme, color)}</TD>"
    if isinstance(kind, EdgeStyle) or kind in _LEGEND_SIGNS:
        color = Color.BACKWARD if kind is EdgeStyle.DASHED else Color.INK
        return f"<TD>{_colored(meaning.letters or _LEGEND_SIGNS[kind], theme, color)}</TD>"
    look = style.NODE_STYLES[kind]
    fill, line = theme.colors[look.fill], theme.colors[look.line]
    size = (
        'WIDTH="26" HEIGHT="12"' if meaning.letters else 'WIDTH="26" HEIGHT="12" FIXEDSIZE="TRUE"'
    )
    letters = _colored(escape.xml(meaning.letters), theme, Color.INK) if meaning.letters else ""
    return f'<TD BORDER="1" {size} BGCOLOR="{fill}" COLOR="{line}">{letters}</TD>'


def _colored(words: str, theme: Theme, color: Color) -> str:
    shade, size = theme.colors[color], f"{style.SHAPE_SIZE:g}"
    return f'<FONT COLOR="{shade}" POINT-SIZE="{size}">{words}</FONT>'
