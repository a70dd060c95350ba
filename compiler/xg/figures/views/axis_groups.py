"""Lanes behind nodes that work on every head, every expert … in the same way.

A run of nodes down one column belongs together where each computes every index of an axis by
itself, and one of them multiplies there: two operands that both have the axis, so that each index
has a product of its own. No result of the block has that axis, nor do all of its inputs. The typing
rules of plans say of a body whether it computes indices by themselves: from an operand in parts it
gives a result in parts, and nothing is sent.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from xg.figures.model.figure import EdgeRole, FigureGroup
from xg.figures.model.richtext import dimension, plain
from xg.figures.views.arrange import Arranged, DrawnOperation
from xg.figures.views.notation import Notation
from xg.ir.body import Body, topological
from xg.ir.dim import Dim
from xg.ir.graph import Apply, Step
from xg.ir.placement import REPLICATED, AxisState, shard
from xg.ir.tensor import Shape
from xg.sharding.argument import IllTyped
from xg.sharding.type_body import type_body

_LEAST: Final = 3


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
    groups: list[FigureGroup] = []
    taken: set[str] = set()
    for start, here in axes.items():
        for axis in here:
            run = tuple(_run(start, axis, axes, below))
            multiplies = any(axes[node][axis] for node in run)
            if len(run) >= _LEAST and multiplies and not taken & set(run):
                taken |= set(run)
                beside = _beside(arranged, run)
                label = (*plain("× "), *dimension(str(axis)))
                name = f"× {axis} {len(groups) + 1}"
                groups.append(FigureGroup(name, label, (*run, *beside), is_axis=True))
    return tuple(groups)


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
        is_name = str(axis).isidentifier() and axis not in outside
        if is_name and all(shape.count(axis) == 1 for shape in flowing):
            body = step.op.body(types, step.attrs)
            multiplies = _multiplies(body, [one.shape for one in types], axis)
            if multiplies is not None:
                yield axis, multiplies


def _multiplies(body: Body, inputs: Sequence[Shape], axis: Dim) -> bool | None:
    """Tell whether a product has the axis in both operands; None where its indices meet."""
    try:
        states = type_body(body, [_part(shape, axis) for shape in inputs])
    except IllTyped:
        return None
    visible = body.outputs[: len(body.outputs) - len(body.caches)]
    if any(axis not in one.shape or states.of(one) != _part(one.shape, axis) for one in visible):
        return None
    return any(
        expr.prim == "contract" and all(states.of(one).kind == "S" for one in expr.args)
        for expr in topological(body.outputs)
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


def _beside(arranged: Arranged, run: Sequence[str]) -> list[str]:
    """Return the tensors next to a run's nodes, which are in the lane with them."""
    operations = {edge.head for edge in arranged.edges}
    return [
        edge.tail
        for edge in arranged.edges
        if edge.head in run and edge.role is EdgeRole.SIDE and edge.tail not in operations
    ]
