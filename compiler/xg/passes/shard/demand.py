"""The placement that later steps ask of a value: it makes a sum scatter instead of gather.

A request for a sharded edge propagates backwards through elementwise operators as long as every use
of a value agrees: the sum in front of a bias is then scattered before the bias is added.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from xg.ir.collective import FAMILY
from xg.ir.graph import Apply, Call, Graph, Value
from xg.ir.placement import AxisState

ELEMENTWISE: Final = frozenset({"add", "multiply", "nonlinear", FAMILY})


def demands(
    graph: Graph,
    axis: str,
    leaving: Mapping[Value, AxisState],
    entering: Callable[[Call], Sequence[AxisState | None]],
) -> dict[Value, AxisState]:
    """The sharding that all uses of a value ask for; `leaving` is what callers ask of outputs."""
    requests: dict[Value, set[AxisState | None]] = {
        value: {state} for value, state in leaving.items() if state.kind == "S"
    }
    for step in reversed(graph.steps):
        if isinstance(step, Call):
            for value, state in zip(step.inputs, entering(step), strict=True):
                requests.setdefault(value, set()).add(state)
            continue
        output_request = _wanted(graph, axis, step.outputs[0], requests)
        for value in step.inputs:
            requests.setdefault(value, set()).add(_through(graph, step, value, output_request))
    return {
        value: state
        for value, states in requests.items()
        for state in states
        if len(states) == 1 and state is not None and state.kind == "S"
    }


def _wanted(
    graph: Graph, axis: str, value: Value, found: Mapping[Value, set[AxisState | None]]
) -> AxisState | None:
    request = graph.placement_requests.get(value, {}).get(axis)
    if request:
        return request.rest
    states = found.get(value, set())
    return next(iter(states)) if len(states) == 1 else None


def _through(graph: Graph, step: Apply, value: Value, wanted: AxisState | None) -> AxisState | None:
    if step.op.family == FAMILY and step.attrs.get("target") == wanted:
        return None  # another mesh axis cuts there: it comes first, being the outer one
    alike = graph.types[value].shape == graph.types[step.outputs[0]].shape
    return wanted if alike and step.op.family in ELEMENTWISE else None
