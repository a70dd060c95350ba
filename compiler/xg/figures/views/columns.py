"""Draw ranks side by side: a column for each rank, a bar across for each collective.

Rows are the same in all columns, as all ranks run one program; labels distinguish their parts (seed
001, 6.1, 7.1 and 8.1).

All ranks run one program, so columns are copies and layout time doesn't grow with the ranks. Moves
of parameters are bars outside of all columns: a bar for each of 21 gradients would hide where ranks
wait for each other. Ranks between the first and the last become strips if the figure would be wider
than a screen.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from itertools import product as combinations
from typing import Final

from xg.diagnostics.lazy_dataclass import dataclass, replace
from xg.figures.model.figure import (
    BarPlace,
    EdgeRole,
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
from xg.figures.model.structure import expand_columns
from xg.figures.views.arrange import Arranged, DrawnOperation, Terminal, arrange, axis_groups
from xg.figures.views.expanded_blocks import BlockExpander, Piece
from xg.figures.views.notation import Notation, in_order
from xg.figures.views.overview import Gradients, Naming, gradients, with_gradients
from xg.figures.views.sketch import (
    Move,
    Sent,
    Sketch,
    collective_name,
    prices,
    sent_tags,
    sketches,
    sum_line,
    sums,
)
from xg.figures.views.steps import gpus, plan_name, stages_of_rows
from xg.ir.dim import ONE, ZERO, Dim, Monomial, product
from xg.ir.graph import Apply, Graph, IRProgram, Step
from xg.ir.placement import FAMILY, axes_over
from xg.ir.walk import Symbols, inside

# How much is sent for all parameters of a program together.


_PRODUCT: Final = re.compile(r"[^\W\d]\w*(?:\^\d+)?(?:\*[^\W\d]\w*(?:\^\d+)?)+")
_ALONE: Final = re.compile(r"(?<![\w*/^])(\d+)\*([^\W\d]\w*(?:\^\d+)?)(?![\w*/^])")


def totals(ranks: IRProgram, known: Mapping[str, Sketch]) -> dict[Sent, tuple[str, str]]:
    """Return for every kind of collective how many parameters it serves, and their elements."""
    dims: dict[Sent, tuple[Dim, Dim]] = {}
    for move, graph, symbols, times in _moves(ranks, known):
        shape = graph.sizes.fold_shape(graph.types[move.value].shape)
        elements = product(shape).substitute(symbols) * times
        for sent in move.sent():
            number, volume = dims.get(sent, (ZERO, ZERO))
            dims[sent] = number + times, volume + elements
    return {
        sent: (in_usual_order(number), _volume_text(volume))
        for sent, (number, volume) in dims.items()
    }


def _volume_text(volume: Dim) -> str:
    text = in_usual_order(volume)
    return f"({text})" if len(volume.terms) > 1 else text


def in_usual_order(size: Dim) -> str:
    """Return a sum as people write it: high degrees first, squares before products.

    >>> from xg.ir.dim import symbol
    >>> D, D_ff = symbol("D"), symbol("D_ff")
    >>> in_usual_order(D * 2 + D * D_ff * 2 + D * D * 4)
    '4D^2 + 2*D*D_ff + 2D'
    """
    terms = sorted(size.terms, key=lambda term: _degrees(term[0]), reverse=True)
    text = _PRODUCT.sub(_order_factors, str(Dim(tuple(terms))))
    return _ALONE.sub(r"\1\2", text)


def _order_factors(product: re.Match[str]) -> str:
    return "*".join(in_order(product[0].split("*")))


def _degrees(monomial: Monomial) -> tuple[int, int]:
    powers = [power for _, power in monomial if power > 0]
    return sum(powers), max(powers, default=0)


def _moves(
    ranks: IRProgram, known: Mapping[str, Sketch]
) -> Iterator[tuple[Move, Graph, Symbols, Dim]]:
    """Yield every move of a parameter, in the sizes of the entry block, and how often it is."""
    waiting: list[tuple[str, Symbols, Dim]] = [(ranks.entry, {}, ONE)]
    while waiting:
        key, symbols, times = waiting.pop()
        sketch = known[key]
        for move in sketch.moves:
            yield move, sketch.graph, symbols, times
        for call in sketch.graph.named_calls():
            callee = known[call.callee].graph
            count = ONE if call.count is None else sketch.graph.sizes.fold(call.count)
            below = inside(call, sketch.graph, callee, symbols)
            waiting.append((call.callee, below, times * count.substitute(symbols)))


# Assign each node of a column to the stage between two bars, so that few lines cross bars.
#
# Nodes keep the order of their program. A result moves up to its producer. A chain that begins
# outside, or at a bar, moves down to its consumer: no more lines cross bars than before.


_QUIET = (NodeKind.TENSOR, NodeKind.SAVED)


def assign_to_stages(arranged: Arranged, bars: Sequence[str]) -> tuple[FigureNode, ...]:
    """Return the nodes of a column, grouped by the bars around them; bars keep their order."""
    levels = {bar: number for number, bar in enumerate(bars)}
    near = _Neighbors.of(arranged)
    segments = _bars_before(arranged.nodes, levels)
    for node in reversed(_loose(arranged.nodes, near, levels)):
        if near.takers[node]:
            segments[node] = min(segments[taker] for taker in near.takers[node])
    for node in arranged.nodes:
        names = near.givers[node.id]
        if names and not near.takers[node.id] and node.id not in levels:
            segments[node.id] = max(segments[giver] + (giver in levels) for giver in names)
    return tuple(sorted(arranged.nodes, key=lambda node: (segments[node.id], node.id in levels)))


@dataclass(frozen=True, slots=True)
class _Neighbors:
    """The producers of each node's operands, besides the tensors at its side; its consumers."""

    givers: Mapping[str, set[str]]
    takers: Mapping[str, set[str]]

    @classmethod
    def of(cls, arranged: Arranged) -> _Neighbors:
        tensors = {node.id for node in arranged.nodes if node.kind in _QUIET}
        givers: defaultdict[str, set[str]] = defaultdict(set)
        takers: defaultdict[str, set[str]] = defaultdict(set)
        for edge in arranged.edges:
            takers[edge.tail].add(edge.head)
            if edge.role is not EdgeRole.SIDE or edge.tail not in tensors:
                givers[edge.head].add(edge.tail)
        return cls(givers, takers)


def _bars_before(nodes: Sequence[FigureNode], levels: Mapping[str, int]) -> dict[str, int]:
    """Return how many bars come before each node."""
    segments: dict[str, int] = {}
    passed = 0
    for node in nodes:
        segments[node.id] = passed
        passed += node.id in levels
    return segments


def _loose(nodes: Sequence[FigureNode], near: _Neighbors, levels: Mapping[str, int]) -> list[str]:
    """Return the nodes of chains that begin outside or at a bar."""
    names: dict[str, None] = {}
    for node in nodes:
        givers = near.givers[node.id]
        if node.id not in levels and len(givers) < 2 and givers <= names.keys() | levels.keys():
            names[node.id] = None
    return list(names)


_MOST: Final = 4  # ranks of one mesh axis that are drawn

Rank = Mapping[str, int]


def columns_figure(placed: IRProgram, ranks: IRProgram, *, legend: bool = False) -> Figure:
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
                replace(node, label=(*node.label, *_group_remark(axis, ranks.mesh))),
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
    return expand_columns(figure)


@dataclass(frozen=True, slots=True)
class _Drawn:
    """One column, before it takes the ids of the first."""

    nodes: tuple[FigureNode, ...]
    edges: tuple[FigureEdge, ...]
    bars: tuple[tuple[FigureNode, str], ...]
    braces: tuple[FigureBrace, ...]
    lanes: tuple[FigureGroup, ...]


def _draw(known: Mapping[str, Sketch], ranks: IRProgram, rank: Rank, flowing: Gradients) -> _Drawn:
    """Draw the column of one rank."""
    opener = BlockExpander(known, rank)
    drawing = opener.drawing(ranks.entry, called=False)
    drawing = replace(drawing, notation=replace(drawing.notation, stages=stages_of_rows(ranks)))
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
        _lanes(arranged, pieces, _bars_above(nodes, {bar.id for bar, _ in bars})),
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


def _bars_above(nodes: Sequence[FigureNode], bars: Collection[str]) -> dict[str, int]:
    """Return how many bars are above each node of a column."""
    passed = accumulate(node.id in bars for node in nodes)
    return {node.id: count for node, count in zip(nodes, passed, strict=True)}


# ---- bars outside: what is sent for parameters ---------------------------------------------------


def _outside(ranks: IRProgram, known: Mapping[str, Sketch], count: int) -> Iterator[FigureBar]:
    """Yield a bar for every kind of collective of parameters, which tags in the columns name."""
    for sent, (number, volume) in totals(ranks, known).items():
        glyph, axis, forward = sent
        what = ("parameter" if forward else "gradient") + "s" * (number != "1")
        node_id = f"{glyph} {axis} {what}"
        label = (
            *collective_name(glyph, axis),
            *plain(" of "),
            *dimension(number),
            *plain(f" {what} tagged "),
        )
        label = (*label, *sent_tags([sent]), *_group_remark(axis, ranks.mesh))
        lines = (*sum_line(glyph, axis), *prices(glyph, axis, volume))
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
        _heading(rank), tuple(replace(node, id=ids[node.id]) for node in drawn.nodes), tuple(edges)
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


def _group_remark(axis: str, mesh: Mapping[str, int]) -> RichText:
    """Return the remark that a bar is one for several groups, if they are not contiguous."""
    axes, over = list(mesh), axes_over(axis)
    inner = [one for one in axes[_first(axes, over) :] if one not in over]
    if not inner:
        return ()
    commas = [run for one in inner for run in (*plain(", "), *dimension(one))][1:]
    return (*plain(", for every rank of "), *commas)


def _subtitle(ranks: IRProgram) -> str:
    """Return `tensor parallel with 3 GPUs`, `data and tensor parallel with 2 × 3 GPUs`."""
    name = plan_name(ranks.plan) if ranks.plan else "overall flow"
    return f"{name} with {gpus(ranks.mesh)}{' in each stage' if stages_of_rows(ranks) else ''}"
