"""Ranks side by side: one column for each, one bar across them for every collective.

Rows are the same in all columns, as all ranks run one program; labels distinguish their parts (seed
001, 6.1, 7.1 and 8.1).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate
from itertools import product as combinations
from typing import Final

from xg.diagnostics.lazy_dataclass import dataclass
from xg.figures.layout.columns import expanded
from xg.figures.model.figure import (
    BarPlace,
    EdgeStyle,
    Figure,
    FigureBar,
    FigureBrace,
    FigureColumn,
    FigureEdge,
    FigureGroup,
    FigureNode,
    NodeKind,
)
from xg.figures.model.richtext import RichText, bold, dimension, plain
from xg.figures.views.arrange import Arranged, DrawnOperation, Terminal, arrange
from xg.figures.views.assign_to_stages import assign_to_stages
from xg.figures.views.axis_groups import axis_groups
from xg.figures.views.communication import sent_tags, sums
from xg.figures.views.expanded_blocks import BlockExpander
from xg.figures.views.notation import Notation
from xg.figures.views.overview import Gradients, Naming, gradients, with_gradients
from xg.figures.views.prices import name, prices, summed
from xg.figures.views.sketch import Move, Sketch, sketches
from xg.figures.views.stages import Piece
from xg.figures.views.steps import gpus, plan_name
from xg.figures.views.totals import totals
from xg.ir.collective import FAMILY
from xg.ir.graph import Apply, Program, Step
from xg.ir.placement import axes_over

_MOST: Final = 4  # ranks of one mesh axis that are drawn

Rank = Mapping[str, int]


def columns_figure(placed: Program, ranks: Program, *, legend: bool = False) -> Figure:
    """Return the overview of a placed program; `ranks` is the program of one of its ranks."""
    sketched = sketches(placed, ranks)
    shown = list(_shown(ranks.mesh))
    flowing = with_gradients(ranks)
    drawn = [_draw(sketched, ranks, rank, flowing) for rank in shown]
    first = drawn[0]
    columns = tuple(_column(one, first, rank) for one, rank in zip(drawn, shown, strict=True))
    bars = (
        *(
            FigureBar(
                replace(node, label=(*node.label, *_each(axis, ranks.mesh))),
                _spans(axis, ranks.mesh, shown),
            )
            for node, axis in first.bars
        ),
        *_outside(ranks, sketched, len(shown)),
    )
    graph = ranks.main
    figure = Figure(
        graph.title or graph.block,
        _subtitle(ranks),
        "Every rank has a column; what is sent between them is a bar across. "
        "Solid arrows run forward, dashed ones carry gradients back.",
        (),
        (),
        legend=legend,
        columns=columns,
        bars=bars,
        braces=first.braces,
        lanes=first.lanes,
    )
    return expanded(figure)


@dataclass(frozen=True, slots=True)
class _Drawn:
    """One column before its ids are those of the first."""

    nodes: tuple[FigureNode, ...]
    edges: tuple[FigureEdge, ...]
    bars: tuple[tuple[FigureNode, str], ...]
    braces: tuple[FigureBrace, ...]
    lanes: tuple[FigureGroup, ...]


def _draw(known: Mapping[str, Sketch], ranks: Program, rank: Rank, flowing: Gradients) -> _Drawn:
    """Draw the column of one rank."""
    opener = BlockExpander(known, rank)
    drawing = opener.drawing(ranks.entry, called=False)
    sources = drawing.sources()
    pieces = opener.pieces(ranks.entry, drawing)
    results = drawing.results()
    naming = Naming(drawing.notation, opener.notations, flowing)
    operations = [piece.operation for piece in pieces]
    # Ranks stand close to each other: more labels make lines cross.
    arranged = arrange(sources, operations, results, naming, spelled=False)
    tensors = (one for one in operations if one.node.kind is NodeKind.TENSOR)
    begun = (Terminal(one.outputs[0], one.node) for one in tensors)
    ends: Sequence[Terminal] = (*sources, *begun, *results)
    edges = (*arranged.edges, *gradients(arranged, ends, operations, naming, opener.tensors))
    moves = {p.operation.node.id: p.move for p in pieces if p.move is not None}
    edges = tuple(_through(edge, moves) for edge in edges)
    bars = tuple((_summing(p, edges), p.move.axis) for p in pieces if p.move is not None)
    nodes = assign_to_stages(arranged, [bar.id for bar, _ in bars])
    return _Drawn(
        nodes,
        edges,
        bars,
        tuple(FigureBrace(one.label, tuple(one.nodes)) for one in opener.braces),
        _lanes(arranged, pieces, _segments(nodes, {bar.id for bar, _ in bars})),
    )


def _through(edge: FigureEdge, moves: Mapping[str, Move]) -> FigureEdge:
    """Return an edge; one into a bar that does nothing in its pass goes through it."""
    move = moves.get(edge.head)
    is_back = edge.style is EdgeStyle.DASHED
    return replace(edge, passes=move is not None and move.passes(backward=is_back))


def _summing(piece: Piece, edges: Iterable[FigureEdge]) -> FigureNode:
    """Return the node of a bar, which says how many terms of a gradient each rank adds first."""
    node, move = piece.operation.node, piece.move
    if move is None or not isinstance(piece.step, Apply) or piece.step.op.family != FAMILY:
        return node
    terms = sum(e.head == node.id and e.style is EdgeStyle.DASHED for e in edges)
    return replace(node, lines=(*sums(move, terms), *node.lines[len(sums(move)) :]))


def _lanes(
    arranged: Arranged, pieces: Iterable[Piece], segments: Mapping[str, int]
) -> tuple[FigureGroup, ...]:
    """Return the lanes in a rank's column, block by block; no lane goes past a bar."""
    blocks: dict[int, tuple[Notation, dict[Step, list[DrawnOperation]]]] = {}
    for piece in pieces:
        if piece.own is not None and piece.move is None:
            notation, operation = piece.own
            _, drawn = blocks.setdefault(id(notation), (notation, {}))
            drawn.setdefault(piece.step, []).append(operation)
    found = [
        group
        for notation, drawn in blocks.values()
        for group in axis_groups(arranged, drawn, notation)
        if len({segments[node] for node in group.nodes}) == 1
    ]
    return tuple(replace(group, id=f"{group.id}.{n}") for n, group in enumerate(found, 1))


def _segments(nodes: Sequence[FigureNode], bars: Collection[str]) -> dict[str, int]:
    """Return how many bars are above each node of a column."""
    passed = accumulate(node.id in bars for node in nodes)
    return {node.id: count for node, count in zip(nodes, passed, strict=True)}


# ---- bars outside: what is sent for parameters ---------------------------------------------------


def _outside(ranks: Program, known: Mapping[str, Sketch], count: int) -> Iterator[FigureBar]:
    """Yield a bar for every kind of collective of parameters, which tags in the columns name."""
    for sent, (number, volume) in totals(ranks, known).items():
        glyph, axis, forward = sent
        what = ("parameter" if forward else "gradient") + "s" * (number != "1")
        node_id = f"{glyph} {axis} {what}"
        label = (*name(glyph, axis), *plain(" of "), *dimension(number), *plain(f" {what} tagged "))
        label = (*label, *sent_tags([sent]), *_each(axis, ranks.mesh))
        lines = (*summed(glyph, axis), *prices(glyph, axis, volume))
        node = FigureNode(node_id, NodeKind.COMMUNICATION, label, lines=lines)
        where = BarPlace.ABOVE if forward else BarPlace.BELOW
        yield FigureBar(node, ((0, count - 1),), where)


# ---- columns -------------------------------------------------------------------------------------


def _column(drawn: _Drawn, first: _Drawn, rank: Rank) -> FigureColumn:
    """Return a column under the ids of the first, whose labels may be others."""
    pairs = zip(drawn.nodes, first.nodes, strict=True)
    ids = {node.id: other.id for node, other in pairs}
    edges = (replace(edge, tail=ids[edge.tail], head=ids[edge.head]) for edge in drawn.edges)
    return FigureColumn(
        _heading(rank),
        tuple(replace(node, id=ids[node.id]) for node in drawn.nodes),
        tuple(edges),
    )


def _heading(rank: Rank) -> RichText:
    numbers = [str(number) for number in rank.values()]
    inside = numbers[0] if len(numbers) == 1 else f"({','.join(numbers)})"  # as on its values
    return bold(f"GPU {inside}")


def _shown(mesh: Mapping[str, int]) -> Iterator[Rank]:
    """Yield the ranks that are drawn, the first axis outermost: of many the first and the last."""
    numbers = [range(size) if size <= _MOST else (0, 1, size - 1) for size in mesh.values()]
    for rank in combinations(*numbers):
        yield dict(zip(mesh, rank, strict=True))


def _spans(
    axis: str, mesh: Mapping[str, int], shown: Sequence[Rank]
) -> tuple[tuple[int, int], ...]:
    """Return the columns of each bar: contiguous groups have their own, others share."""
    axes = list(mesh)
    outer = axes[: _first(axes, axes_over(axis))]
    groups: dict[tuple[int, ...], list[int]] = {}
    for place, rank in enumerate(shown):
        groups.setdefault(tuple(rank[one] for one in outer), []).append(place)
    return tuple((group[0], group[-1]) for group in groups.values())


def _first(axes: Sequence[str], over: Collection[str]) -> int:
    """Return the place of the outermost axis that a bar goes over."""
    return next(place for place, axis in enumerate(axes) if axis in over)


def _each(axis: str, mesh: Mapping[str, int]) -> RichText:
    """Return the remark that a bar is one for several groups, if they are not contiguous."""
    axes, over = list(mesh), axes_over(axis)
    inner = [one for one in axes[_first(axes, over) :] if one not in over]
    if not inner:
        return ()
    commas = [run for one in inner for run in (*plain(", "), *dimension(one))][1:]
    return (*plain(", for every rank of "), *commas)


def _subtitle(ranks: Program) -> str:
    """Return `tensor parallel with 3 GPUs`, `data and tensor parallel with 2 × 3 GPUs`."""
    name = plan_name(ranks.plan) if ranks.plan else "overall flow"
    return f"{name} with {gpus(ranks.mesh)}"
