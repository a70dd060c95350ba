"""The consequences of taking the labels of a block at their word."""

from __future__ import annotations

from xg.ir.collective import FAMILY
from xg.ir.graph import Apply, Graph, Value
from xg.ir.placement import CONSTANT, PARTIAL, REPLICATED, AxisState
from xg.sharding.primitive_rules import IllTyped
from xg.sharding.type_body import type_body


def first_sum(value: Value, state: AxisState, graph: Graph, axis: str) -> Value | None:
    """The first value made of `value` that would be a partial sum over `axis`, if that is `state`.

    A labelled value has the placement of its label, later ones follow from their operators, and the
    rest is replicated. None where no sum follows.
    """
    states, behind = {value: state}, {value}

    def placed(operand: Value) -> AxisState:
        request = graph.placement_requests.get(operand, {}).get(axis)
        if request and request.rest.kind == "S":
            return request.rest
        whole = REPLICATED if graph.types[operand].is_float else CONSTANT
        return states.get(operand, whole)

    for step in graph.steps:
        if not isinstance(step, Apply) or step.op.family == FAMILY:
            continue
        body = step.body(graph.types)
        try:
            typing = type_body(body, [placed(operand) for operand in step.inputs], axis)
        except IllTyped:
            continue
        states.update(zip(step.outputs, map(typing.of, body.outputs), strict=True))
        if behind.intersection(step.inputs):
            behind.update(step.outputs)
            if states[step.outputs[0]] == PARTIAL:
                return step.outputs[0]
    return None
