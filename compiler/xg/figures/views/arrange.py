"""Arranging: operations in program order become the columns, branches and lanes of a figure.

The first operand of an operation continues its column; of several operations that continue with one
value, the one with the most to come. Other operands come in from the side, or through a lane if
they come from far above in the same column.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Protocol

from xg.diagnostics.lazy_dataclass import dataclass, field
from xg.figures.model.figure import EdgeRole, EdgeStyle, Emphasis, FigureEdge, FigureNode, NodeKind
from xg.figures.model.richtext import RichText, before_shape, characters
from xg.figures.views.remarks import behind
from xg.ir.graph import Value


class EdgeNaming(Protocol):
    """How values are written on edges."""

    def label(self, value: Value) -> RichText:
        """Return symbol and shape."""
        ...

    def mark(self, value: Value) -> Emphasis:
        """Return how the value's edges are drawn."""
        ...

    def note(self, value: Value) -> RichText:
        """Return what the file says of the value."""
        ...


@dataclass(frozen=True, slots=True)
class Flow:
    """An operand that arrives by an arrow from another node.

    `text` is how the node reads it, where that is not as the value is written: ``dZ [B·S, D]``.
    """

    value: Value
    style: EdgeStyle = EdgeStyle.SINGLE
    text: RichText = ()


@dataclass(frozen=True, slots=True)
class DrawnOperation:
    """One node with all that enters and leaves it.

    `beside` are tensors next to it: parameters, saved values. If an operation `commutes`, any
    operand may continue its column, else only the first flow; if it is `ordered`, another one only
    where its own column would end.
    """

    node: FigureNode
    flows: tuple[Flow, ...]
    outputs: tuple[Value, ...]
    beside: tuple[tuple[FigureNode, EdgeStyle], ...] = ()
    commutes: bool = False
    ordered: bool = False


@dataclass(frozen=True, slots=True)
class Terminal:
    """A tensor that enters or leaves the figure."""

    value: Value
    node: FigureNode


@dataclass(frozen=True, slots=True)
class Arranged:
    """The nodes and edges of a figure."""

    nodes: tuple[FigureNode, ...]
    edges: tuple[FigureEdge, ...]


Labels = dict[int, RichText]


def arrange(
    sources: Sequence[Terminal],
    operations: Sequence[DrawnOperation],
    results: Sequence[Terminal],
    naming: EdgeNaming,
    *,
    spelled: bool = True,
) -> Arranged:
    """Decide the role and the label of every edge.

    Where a node has several results, each arrow says which of them it carries if it is `spelled`.
    Lines that leave a collective are each labelled where ranks are side by side: they begin apart.
    """
    ends = (DrawnOperation(result.node, (Flow(result.value),), ()) for result in results)
    operations = (*operations, *ends)
    made_by = {source.value: source.node.id for source in sources}
    made_by |= {value: one.node.id for one in operations for value in one.outputs}
    output = {value: n for one in operations for n, value in enumerate(one.outputs)}
    state = _Arrangement(made_by, _heirs(operations, made_by))
    for source in sources:
        state.place(source.node.id, None, 0)
    arrows = [arrow for operation in operations for arrow in state.arrows(operation)]
    tensors = (one.node.id for one in operations if one.node.kind is NodeKind.TENSOR)
    named = frozenset((*(source.node.id for source in sources), *tensors))
    labels, repeats = _labelled(arrows, named, naming, spelled=spelled)
    moved = _crowded_notes(operations, arrows)
    for place, note in moved.values():
        labels[place] = (*labels.get(place, ()), *note)
        repeats.discard(place)
    said = [(labels.get(number, ()), number in repeats) for number in range(len(arrows))]
    edges = [_edge(a, text, naming, output) for a, text in zip(arrows, said, strict=True)]
    nodes = [source.node for source in sources]
    for operation in operations:
        beside = [pair for pair in operation.beside if pair[0].id not in moved]
        nodes += [*(tensor for tensor, _ in beside), operation.node]
        edges += (
            FigureEdge(tensor.id, operation.node.id, style, EdgeRole.SIDE, mark=tensor.mark)
            for tensor, style in beside
        )
    return Arranged(tuple(nodes), tuple(edges if spelled else map(_briefly, edges)))


def _edge(
    arrow: _Arrow, said: tuple[RichText, bool], naming: EdgeNaming, output: Mapping[Value, int]
) -> FigureEdge:
    """Return an arrow as an edge with its label, and whether this repeats another."""
    value = arrow.flow.value
    mark, place = naming.mark(value), output.get(value, 0)
    style = arrow.flow.style
    label, repeats = said
    return FigureEdge(arrow.tail, arrow.head.id, style, arrow.role, label, mark, place, repeats)


def _briefly(edge: FigureEdge) -> FigureEdge:
    """Return an edge; the tensor of a lane is named if there is room for that."""
    if edge.role is not EdgeRole.RESIDUAL:
        return edge
    name, shape = before_shape(edge.label)
    return replace(edge, label=shape, name=name) if shape else edge


@dataclass(frozen=True, slots=True)
class _Arrow:
    """An edge whose label is not yet chosen."""

    tail: str
    head: FigureNode
    flow: Flow
    role: EdgeRole


@dataclass(slots=True)
class _Arrangement:
    """The columns of a figure while it is made; `heir` is who may continue a node's column."""

    made_by: dict[Value, str]
    heir: dict[str, str]
    column: dict[str, int] = field(default_factory=dict[str, int])
    depth: dict[str, int] = field(default_factory=dict[str, int])
    level: dict[int, int] = field(default_factory=dict[int, int])

    def place(self, node: str, column: int | None, depth: int, beside: int | None = None) -> None:
        """Put a node into a column, a new one if None, which may branch off from another."""
        if column is None:
            column = max(self.column.values(), default=-1) + 1
            self.level[column] = 0 if beside is None else self.level[beside] + 1
        self.column[node] = column
        self.depth[node] = depth

    def arrows(self, operation: DrawnOperation) -> Iterator[_Arrow]:
        """Put an operation into its column and yield what flows into it."""
        node = operation.node.id
        tails = [self.made_by[flow.value] for flow in operation.flows]
        main = self._main(operation, tails)
        goes_on = main is not None and self.heir.get(tails[main]) == node
        column = self.column[tails[main]] if main is not None and goes_on else None
        beside = self.column[tails[main]] if main is not None else None
        depth = 1 + max((self.depth[tail] for tail in tails), default=0)
        self.place(node, column, depth, beside)
        for place, (flow, tail) in enumerate(zip(operation.flows, tails, strict=True)):
            if place == main:
                role = EdgeRole.MAIN if goes_on else EdgeRole.BRANCH
            elif self.column[tail] == self.column[node] and self.heir.get(tail) != node:
                role = EdgeRole.RESIDUAL
            else:
                role = EdgeRole.SIDE
            yield _Arrow(tail, operation.node, flow, role)

    def _main(self, operation: DrawnOperation, tails: Sequence[str]) -> int | None:
        """Choose the operand whose column continues: of a sum, a column from which others branch.

        Of several that branch from one it is the last: it is nearest to that.
        """
        if not tails or not operation.commutes:
            return 0 if tails else None
        node = operation.node.id
        going_on = [n for n, tail in enumerate(tails) if self.heir.get(tail) == node]
        if operation.ordered and not going_on:
            return 0

        def rank(place: int) -> tuple[bool, int, int, int]:
            tail = tails[place]
            waits, column = place not in going_on, self.column[tail]
            level = self.level[column]
            return waits, level, -column if level else column, -self.depth[tail]

        return min(range(len(tails)), key=rank)


def _heirs(operations: Sequence[DrawnOperation], made_by: Mapping[Value, str]) -> dict[str, str]:
    """Choose for each node the operation that may continue its column: the one with most to come.

    Of several it is the one that leads to the first result: a loss is in front of the others. A
    value that is only sent does not: a gradient that ranks add up stays beside the column.
    """
    height: dict[str, int] = defaultdict(int)
    best: dict[str, tuple[bool, bool, int, int]] = {}
    chosen: dict[str, str] = {}
    kinds = {one.node.id: one.node.kind for one in operations}
    sent = {node for node, kind in kinds.items() if kind is NodeKind.COMMUNICATION}
    last: dict[str, int] = {}  # the place of the operation that ends a node's column
    for place, operation in reversed(list(enumerate(operations))):
        node = operation.node.id
        last[node] = last[chosen[node]] if node in chosen else place
        flows = operation.flows if operation.commutes else operation.flows[:1]
        for number, flow in enumerate(flows):
            tail, is_first = made_by[flow.value], number == 0 or not operation.ordered
            if is_first:
                height[tail] = max(height[tail], height[node] + (tail not in sent))
            # A second operand goes on only where no first one does.
            rank = is_first, flow.style is EdgeStyle.SINGLE, height[node], -last[node]
            if tail not in best or rank >= best[tail]:
                best[tail], chosen[tail] = rank, node
    return chosen


def _crowded_notes(
    operations: Sequence[DrawnOperation], arrows: Sequence[_Arrow]
) -> dict[str, tuple[int, RichText]]:
    """Return the notes of nodes that have other lines at both sides.

    Each is written behind the label of the arrow by which the node's column goes on.
    """
    notes = {one.node.id: tensor for one in operations
             for tensor, style in one.beside if style is EdgeStyle.NOTE}  # fmt: skip
    sides = {one.node.id: len(one.beside) - 1 for one in operations if one.node.id in notes}
    leaving: dict[str, int] = {}
    for number, arrow in enumerate(arrows):
        if arrow.tail in notes:
            sides[arrow.tail] += arrow.role is not EdgeRole.MAIN
            if arrow.tail not in leaving or arrow.role is EdgeRole.MAIN:
                leaving[arrow.tail] = number
        if arrow.head.id in notes:
            sides[arrow.head.id] += arrow.role in (EdgeRole.SIDE, EdgeRole.RESIDUAL)
    return {
        notes[node].id: (leaving[node], behind(characters(notes[node].label), notes[node].mark))
        for node, count in sides.items()
        if count > 1 and node in leaving
    }


def _labelled(
    arrows: Sequence[_Arrow], named: frozenset[str], naming: EdgeNaming, *, spelled: bool
) -> tuple[Labels, set[int]]:
    """Choose what each arrow says: symbol and shape, as the node that it leads to reads them.

    If they are not `spelled`, one arrow of a value does, where its column continues. Tensors carry
    their names themselves; a lane says its value again. An arrow into one that goes on says what
    it is called before, if that is another name. Return also which arrows repeat what is said of
    the only value that leaves a node.
    """
    order = (EdgeRole.MAIN, EdgeRole.BRANCH, EdgeRole.SIDE)
    heads = (arrow.head for arrow in arrows)
    bars = {head.id for head in heads if head.kind is NodeKind.COMMUNICATION}
    labels: Labels = {}
    repeats: set[int] = set()
    done: set[Value] = set()
    leaving: dict[str, set[Value]] = defaultdict(set)
    for arrow in arrows:
        leaving[arrow.tail].add(arrow.flow.value)
    for role in order:
        for number, arrow in enumerate(arrows):
            value = arrow.flow.value
            if arrow.role is not role or _is_silent(arrow, named, leaving, naming):
                continue
            text, is_known = arrow.flow.text or naming.label(value), value in done
            if not is_known or spelled or arrow.tail in bars:
                labels[number] = text if is_known else (*text, *naming.note(value))
                again = is_known and len(leaving[arrow.tail]) == 1 and arrow.tail not in bars
                if arrow.tail in named or again:
                    repeats.add(number)
            done.add(value)
    for number, arrow in enumerate(arrows):
        if arrow.role is EdgeRole.RESIDUAL:
            value = arrow.flow.value
            is_new = value not in done and arrow.tail not in named
            text = arrow.flow.text or naming.label(value)
            labels[number] = (*text, *(naming.note(value) if is_new else ()))
    return labels, repeats


def _is_silent(
    arrow: _Arrow, named: frozenset[str], leaving: Mapping[str, set[Value]], naming: EdgeNaming
) -> bool:
    """Return whether one end of an arrow says already what it carries."""
    ends = arrow.head.id in named and arrow.head.id not in leaving
    begins = arrow.tail in named and not arrow.flow.text
    return begins or ends or arrow.head.label == naming.label(arrow.flow.value)
