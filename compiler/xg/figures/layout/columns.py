"""Ranks side by side as one graph: every column's nodes and edges, bars in place of their nodes."""

from __future__ import annotations

from dataclasses import replace

from xg.diagnostics.lazy_dataclass import dataclass
from xg.figures.model.figure import (
    BarPlace,
    Figure,
    FigureBar,
    FigureColumn,
    FigureEdge,
    FigureGroup,
    FigureNode,
)
from xg.figures.model.richtext import RichText, plain
from xg.figures.model.structure import parted

_HEIGHT: RichText = plain(" ")  # a line without text keeps the room of one


def expanded(figure: Figure) -> Figure:
    """Return the figure with the nodes and edges of all its columns, grouped by what bars part."""
    nodes: list[FigureNode] = []
    edges: list[FigureEdge] = []
    groups: list[FigureGroup] = []
    bars = {bar.node.id: bar for bar in figure.bars}
    for place, column in enumerate(figure.columns):
        names = ColumnIds(place, bars)
        own = (node for node in column.nodes if node.id not in bars)
        nodes += (replace(node, id=names.of(node.id)) for node in own)
        edges += (
            replace(edge, tail=names.of(edge.tail), head=names.of(edge.head))
            for edge in column.edges
        )
        for number, segment in enumerate(segments(figure)):
            heading = column.heading if number == 0 else ()
            inside = tuple(names.of(node) for node in segment)
            groups.append(FigureGroup(f"rank {place}.{number}", heading, inside))
            groups += (
                replace(one, id=f"{one.id} @{place}", nodes=tuple(map(names.of, one.nodes)))
                for one in figure.lanes
                if set(one.nodes) <= set(segment)
            )
    for bar in figure.bars:
        nodes += (replace(bar.node, id=bar_id(bar, number)) for number in range(len(bar.spans)))
    return replace(figure, nodes=tuple(nodes), edges=tuple(edges), groups=tuple(groups))


@dataclass(frozen=True, slots=True)
class ColumnIds:
    """The ids of one column's nodes among those of all."""

    column: int
    bars: dict[str, FigureBar]

    def of(self, node_id: str) -> str:
        """Return the id of a node, or of the bar that replaces it."""
        if node_id not in self.bars:
            return f"{node_id} @{self.column}"
        bar = self.bars[node_id]
        spans = enumerate(bar.spans)
        number = next(n for n, (first, last) in spans if first <= self.column <= last)
        return bar_id(bar, number)


def bar_id(bar: FigureBar, number: int) -> str:
    """Return the id of one of the bars of a collective."""
    return bar.node.id if len(bar.spans) == 1 else f"{bar.node.id} #{number}"


def single_column(figure: Figure, column: FigureColumn) -> Figure:
    """Return one column as a figure: its bars are as high as they will be, and narrow."""
    narrow = {
        bar.node.id: replace(bar.node, label=_HEIGHT, lines=tuple(_HEIGHT for _ in bar.node.lines))
        for bar in figure.bars
    }
    nodes = (narrow.get(node.id, node) for node in column.nodes)
    return Figure(
        figure.title,
        figure.subtitle,
        figure.description,
        tuple(nodes),
        column.edges,
        figure.lanes,
        levels=tuple(bar.node.id for bar in figure.bars if bar.where is BarPlace.BETWEEN),
    )


def first_column(figure: Figure) -> Figure:
    """Return what is placed of a figure: its first column, or all of one that has no columns."""
    return single_column(figure, figure.columns[0]) if figure.columns else figure


def segments(figure: Figure) -> list[list[str]]:
    """Return the nodes of a column, parted by its bars, from top to bottom."""
    return [segment for segment in parted(single_column(figure, figure.columns[0])) if segment]
