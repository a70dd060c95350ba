"""Lanes behind nodes that work on every head, every expert … in the same way.

A run of nodes down one column belongs together where each computes every index of an axis by
itself, from a product to another: of two operands that both have the axis, so that each index has a
product of its own. Nodes before the first product or behind the last one, as rotations and norms,
are in other columns too, and outside of the lane in all of them. Only where no column has two
products, a column with one has a lane. Products at the side that lead into it are in it too. No
result of the block has that axis, nor do all of its inputs. The typing rules of plans say of a body
whether it computes indices by themselves: from an operand in parts it gives a result in parts, and
nothing is sent.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from xg.diagnostics.lazy_dataclass import dataclass
from xg.figures.model.figure import EdgeRole, FigureGroup
from xg.figures.model.richtext import dimension, plain
from xg.figures.views.arrange import Arranged, DrawnOperation
from xg.figures.views.notation import Notation
from xg.ir.body import Body
from xg.ir.dim import Dim
from xg.ir.graph import Apply, Step
from xg.ir.placement import REPLICATED, AxisState, shard
from xg.ir.tensor import Shape
from xg.sharding.primitive_rules import IllTyped
from xg.sharding.type_body import type_body

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
            (*run.nodes, *_beside(arranged, run.nodes)),
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
    """Return the runs of enough nodes, of those that share a node the first."""
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
        whole, _ = notation.graph.sizes.undivided(axis)  # a rank has N_H/N_T heads
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
    """Return the state of an operand of which each index of the axis has its part."""
    return shard(shape.index(axis) - len(shape)) if axis in shape else REPLICATED


def _run(
    start: str,
    axis: Dim,
    axes: Mapping[str, Mapping[Dim, bool]],
    below: Mapping[str, str],
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


def _beside(arranged: Arranged, run: Sequence[str]) -> list[str]:
    """Return the tensors next to a run's nodes, which are in the lane with them."""
    operations = {edge.head for edge in arranged.edges}
    return [
        edge.tail
        for edge in arranged.edges
        if edge.head in run and edge.role is EdgeRole.SIDE and edge.tail not in operations
    ]
