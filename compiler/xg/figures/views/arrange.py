"""Arrange operations in program order as columns, branches and lanes of a figure.

The first operand of an operation continues its column; of several operations that continue with one
value, the one with the most to come. Other operands come in from the side, or through a lane if
they come from far above in the same column.

The loss continues the column, because gradients begin there. An operand that the file happens to
write first is no reason that a reader could see.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, Protocol

from xg.diagnostics.lazy_dataclass import dataclass, field, replace
from xg.figures.model.figure import (
    EdgeRole,
    EdgeStyle,
    Emphasis,
    FigureEdge,
    FigureGroup,
    FigureNode,
    NodeKind,
)
from xg.figures.model.richtext import RichText, before_shape, characters, dimension, plain
from xg.figures.views.notation import Notation, behind
from xg.ir.body import Body
from xg.ir.dim import Dim
from xg.ir.graph import Apply, Step, Value
from xg.ir.placement import REPLICATED, AxisState, shard
from xg.ir.tensor import Shape
from xg.sharding.primitive_rules import IllTyped, type_body


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
    Lines that leave a collective are each labeled where ranks are side by side: they begin apart.
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
    labels, repeats = _choose_labels(arrows, named, naming, spelled=spelled)
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


def _choose_labels(
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


# Lanes behind nodes that work on every head, every expert … in the same way.
#
# A run of nodes down one column belongs together where each computes every index of an axis by
# itself, from a product to another: of two operands that both have the axis, so that each index has
# a product of its own. Nodes before the first product or behind the last one, as rotations and
# norms, are in other columns too, and outside of the lane in all of them. Only where no column has
# two products, a column with one has a lane. Products at the side that lead into it are in it too.
# No result of the block has that axis, nor do all of its inputs. The typing rules of plans say of a
# body whether it computes indices by themselves: from an operand in parts it gives a result in
# parts, and nothing is sent.


_LEAST: Final = 3


@dataclass(frozen=True, slots=True)
class _Run:
    """Nodes down a column that compute each index of an axis by themselves."""

    axis: Dim
    nodes: tuple[str, ...]


def axis_groups(
    arranged: Arranged, drawn: Mapping[Step, Sequence[DrawnOperation]], notation: Notation
) -> tuple[FigureGroup, ...]:
    """Return the lanes of a figure, in the order of their first nodes."""
    outside = _outside(notation)
    axes = {
        operations[0].node.id: dict(_independent(step, operations[0], notation, outside))
        for step, operations in drawn.items()
        if isinstance(step, Apply)
    }
    below = {e.tail: e.head for e in arranged.edges if e.role is EdgeRole.MAIN}
    runs = [
        _Run(axis, tuple(_run(start, axis, axes, below))) for start in axes for axis in axes[start]
    ]
    between = _apart(_between_products(run, axes) for run in runs)
    lanes = between or _apart(run for run in runs if any(axes[one][run.axis] for one in run.nodes))
    wholes = [_Run(run.axis, (*run.nodes, *_joining(arranged, run, axes))) for run in lanes]
    wholes += _aside(wholes, runs, axes)
    return tuple(
        FigureGroup(
            f"× {run.axis} {number}",
            (*plain("batch axis "), *dimension(notation.written(run.axis))),
            (*run.nodes, *_run_tensors(arranged, run.nodes)),
            is_axis=True,
        )
        for number, run in enumerate(wholes, 1)
    )


def _between_products(run: _Run, axes: Mapping[str, Mapping[Dim, bool]]) -> _Run:
    """Return the part of a run from its first product to its last."""
    products = [place for place, node in enumerate(run.nodes) if axes[node][run.axis]]
    part = slice(products[0], products[-1] + 1) if products else slice(0)
    return _Run(run.axis, run.nodes[part])


def _apart(runs: Iterable[_Run]) -> list[_Run]:
    """Return the runs that have enough nodes; of runs that share a node, the first."""
    found: list[_Run] = []
    taken: set[str] = set()
    for run in runs:
        if len(run.nodes) >= _LEAST and not taken & set(run.nodes):
            taken |= set(run.nodes)
            found.append(run)
    return found


def _aside(
    lanes: Sequence[_Run], runs: Sequence[_Run], axes: Mapping[str, Mapping[Dim, bool]]
) -> Iterator[_Run]:
    """Yield the products of other columns that are done for each index of an axis with a lane."""
    repeated = {lane.axis for lane in lanes}
    taken = {node for lane in lanes for node in lane.nodes}
    for run in runs:
        part = _between_products(run, axes)
        if run.axis in repeated and part.nodes and not taken & set(part.nodes):
            taken |= set(part.nodes)
            yield part


def _outside(notation: Notation) -> set[Dim]:
    """Return the axes of a result, or of all inputs: the block does not make them itself."""
    inputs = [set(notation.type(value).shape) for value in notation.graph.inputs]
    results = [notation.type(value).shape for value in notation.graph.outputs]
    return set[Dim]().union(*results, set[Dim].intersection(*inputs) if inputs else ())


def _independent(
    step: Apply, operation: DrawnOperation, notation: Notation, outside: set[Dim]
) -> Iterator[tuple[Dim, bool]]:
    """Yield the axes whose indices a step computes by themselves, and whether it multiplies there.

    They go in with every flowing operand and come out.
    """
    if not operation.flows or step.op.family == "collective":
        return
    types = [notation.type(value) for value in step.inputs]
    flowing = [notation.type(flow.value).shape for flow in operation.flows]
    for axis in dict.fromkeys(flowing[0]):
        whole, _ = notation.graph.sizes.size_and_parts(axis)  # a rank has N_H/N_T heads
        is_name = str(whole).isidentifier() and axis not in outside
        if is_name and all(shape.count(axis) == 1 for shape in flowing):
            body = step.op.body(types, step.attrs)
            multiplies = _multiplies(body, [one.shape for one in types], axis)
            if multiplies is not None:
                yield axis, multiplies


def _multiplies(body: Body, inputs: Sequence[Shape], axis: Dim) -> bool | None:
    """Tell whether a product has the axis in both operands; None where its indices meet."""
    try:
        states = type_body(body, [_part(shape, axis) for shape in inputs], "")
    except IllTyped:
        return None
    visible = body.outputs[: len(body.outputs) - len(body.caches)]
    if any(axis not in one.shape or states.of(one) != _part(one.shape, axis) for one in visible):
        return None
    return any(
        expr.prim == "contract" and all(states.of(one).kind == "S" for one in expr.args)
        for expr in body.order()
    )


def _part(shape: Shape, axis: Dim) -> AxisState:
    """Return the state of an operand that is split along an axis."""
    return shard(shape.index(axis) - len(shape)) if axis in shape else REPLICATED


def _run(
    start: str, axis: Dim, axes: Mapping[str, Mapping[Dim, bool]], below: Mapping[str, str]
) -> Iterator[str]:
    node: str | None = start
    while node is not None and axis in axes.get(node, ()):
        yield node
        node = below.get(node)


def _joining(arranged: Arranged, run: _Run, axes: Mapping[str, Mapping[Dim, bool]]) -> list[str]:
    """Return products at the side, as the gate of an expert, with what leads from these to a run.

    Nothing else may take them.
    """
    heads: dict[str, set[str]] = defaultdict(set)
    for edge in arranged.edges:
        heads[edge.tail].add(edge.head)
    inside = set(run.nodes)
    for node in reversed(list(axes)):
        if run.axis in axes[node] and heads[node] <= inside:
            inside.add(node)
    led = set[str]()
    for node in axes:
        if node in inside and (axes[node].get(run.axis) or node in led):
            led |= {node, *heads[node]}
    return [node for node in axes if node in led & inside and node not in run.nodes]


def _run_tensors(arranged: Arranged, run: Sequence[str]) -> list[str]:
    """Return the tensors next to a run's nodes, which are in the lane with them."""
    operations = {edge.head for edge in arranged.edges}
    return [
        edge.tail
        for edge in arranged.edges
        if edge.head in run and edge.role is EdgeRole.SIDE and edge.tail not in operations
    ]
