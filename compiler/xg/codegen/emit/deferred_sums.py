"""Gradients whose sum over ranks can be deferred to the end of the backward pass."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

from xg.diagnostics.lazy_dataclass import dataclass
from xg.ir.graph import Apply, Backward, Value
from xg.ir.prim import Expr


@dataclass(frozen=True, slots=True)
class DeferredSum:
    """One rank's term, and the mesh axis over which it is to be summed.

    Of the sum the rank gets its slice along an `axis` of the tensor; all of it where that is None.
    """

    term: Value
    over: str
    axis: int | None = None


def deferred_sums(
    backward: Backward, shared: Collection[tuple[str, str]]
) -> dict[Value, DeferredSum]:
    """The gradients of parameters that are sums over ranks which no step reads.

    For a parameter used in several places (`shared`, by graph and name) the parts are summed first.
    """
    graph = backward.forward
    reads = Counter(v for step in backward.steps for v in step.inputs)
    reads.update(backward.gradients.values())
    makers = {step.outputs[0]: step for step in backward.steps if isinstance(step, Apply)}
    sums: dict[Value, DeferredSum] = {}
    for value in graph.param_values():
        gradient = backward.gradients.get(value)
        if gradient is None or reads[gradient] > 1:
            continue
        if {(graph.key, str(value.name)), (graph.key, "*")} & set(shared):
            continue
        step = makers.get(gradient)
        expr = step and sum_of(step, backward)
        if step and expr:
            axis = expr.attr("axis") if expr.prim == "reduce_scatter" else None
            assert axis is None or isinstance(axis, int)
            sums[gradient] = DeferredSum(step.inputs[0], str(expr.attr("over")), axis)
    return sums


def sum_of(step: Apply, backward: Backward) -> Expr | None:
    """The sum over ranks that a step is, if it is nothing else."""
    if step.op.family != "collective":
        return None
    (total,) = step.body(backward.types).outputs
    return total if total.prim in ("all_reduce", "reduce_scatter") else None
