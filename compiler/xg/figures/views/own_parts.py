"""Parts that a rank takes of an operand inside a step, drawn as a node in front of it.

An input that every rank holds whole, as the targets of a loss, is cut where a rank's part meets it:
in the body of the step, so no step of the graph says so. Only inputs have the node: what the block
makes is labelled as a whole on its arrow, and may go elsewhere too.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from xg.diagnostics.lazy_dataclass import dataclass, field
from xg.ir.body import Body, substitute
from xg.ir.collective import FAMILY
from xg.ir.graph import Apply, Graph, Step, Value
from xg.ir.placement import AxisState, axis_of, joined_axes, shard
from xg.ir.prim import Expr
from xg.ir.tensor import TensorType
from xg.ops.part import OP as PART

_SLICE: Final = "shard_slice"


def with_own_parts(graph: Graph) -> Graph:
    """Return the graph with a step for every part that a rank takes of a whole input.

    An input of which a step reads more than one part stays whole.
    """
    found = _OwnParts(graph)
    steps: list[Step] = []
    for step in graph.steps:
        if isinstance(step, Apply) and step.op.local and step.op.family != FAMILY:
            steps += found.of(step)
        else:
            steps.append(step)
    if not found.types:
        return graph
    return replace(
        graph,
        steps=tuple(steps),
        types={**graph.types, **found.types},
        placements={**graph.placements, **found.placements},
    )


@dataclass(slots=True)
class _OwnParts:
    """The parts that steps of a graph take; two that take the same one share it."""

    graph: Graph
    made: dict[tuple[Value, tuple[tuple[str, int], ...]], Value] = field(
        default_factory=dict[tuple[Value, tuple[tuple[str, int], ...]], Value]
    )
    types: dict[Value, TensorType] = field(default_factory=dict[Value, TensorType])
    placements: dict[Value, Mapping[str, AxisState]] = field(
        default_factory=dict[Value, Mapping[str, AxisState]]
    )

    def of(self, step: Apply) -> list[Apply]:
        """Return a step behind those that take its parts."""
        body = step.body(self.graph.types)
        cuts = _cuts(body)
        inputs, operands, before = list(step.inputs), list(body.operands), list[Apply]()
        for place, (value, whole) in enumerate(zip(step.inputs, body.operands, strict=True)):
            cut = cuts.get(id(whole))
            if cut is None or value not in self.graph.inputs:
                continue
            inputs[place], taken = self._taken(value, cut, step)
            before += taken
            operands[place] = replace(whole, shape=cut[-1].shape)
        if inputs == list(step.inputs):
            return [step]
        return [*before, _on_parts(step, body, cuts, inputs, operands)]

    def _taken(
        self, value: Value, cut: Sequence[Expr], step: Apply
    ) -> tuple[Value, Sequence[Apply]]:
        """Return the part of a value, with the step that takes it if no other did."""
        axes = tuple((axis_of(str(e.attr("over"))), e.typed("axis", int)) for e in cut)
        if (value, axes) in self.made:
            return self.made[value, axes], ()
        part = self.made[value, axes] = Value(value.name, "edge", value.span)
        self.types[part] = replace(self.graph.types[value], shape=cut[-1].shape)
        lies = {over: shard(axis) for over, axis in axes}
        self.placements[part] = {**self.graph.placements.get(value, {}), **lies}
        over = joined_axes(over for over, _ in axes)
        return part, (Apply(PART, (value,), (part,), {"across": over}, step.span),)


def _cuts(body: Body) -> dict[int, list[Expr]]:
    """Return the operands of which only one part is read, with the slices that take it."""
    readers: dict[int, list[Expr]] = defaultdict(list)
    for expr in body.order():
        for arg in expr.args:
            readers[id(arg)].append(expr)
    cuts: dict[int, list[Expr]] = {}
    for whole in body.operands:
        taken, last = list[Expr](), whole
        while [one.prim for one in readers[id(last)]] == [_SLICE]:
            (last,) = readers[id(last)]
            taken.append(last)
        if taken:
            cuts[id(whole)] = taken
    return cuts


def _on_parts(
    step: Apply,
    body: Body,
    cuts: Mapping[int, Sequence[Expr]],
    inputs: Sequence[Value],
    operands: Sequence[Expr],
) -> Apply:
    """Return a step that takes the parts themselves."""
    pairs = list(zip(body.operands, operands, strict=True))
    parts = {id(cuts[id(whole)][-1]): part for whole, part in pairs if part is not whole}
    outputs = substitute(body.outputs, parts)
    on_parts = replace(body, operands=tuple(operands), outputs=tuple(o for o in outputs if o))

    def forward(*given: Expr, **_: object) -> object:
        return on_parts.on(given)

    return replace(step, op=replace(step.op, forward=forward), inputs=tuple(inputs))
