"""Gradients that are zero for a reason: the reason, derived from the graph, or nothing."""

from __future__ import annotations

from collections.abc import Mapping

from xg.ir.graph import Apply, Graph, Value
from xg.verify.perturbation import Perturbation, propagate


def why_zero(graph: Graph, value: Value) -> str | None:
    """The reason why no output of a graph depends on a parameter or an input, to first order.

    None if that cannot be shown: then a gradient that is zero is an error.
    """
    every = frozenset[int]()
    changes: dict[Value, Perturbation] = {value: Perturbation(value, every)}
    ends: list[Apply] = []
    for step in graph.steps:
        if not any(each in changes for each in step.inputs):
            continue
        if isinstance(step, Apply):
            perturbations = _through(step, graph, changes)
        else:
            perturbations = {each: Perturbation(each, every) for each in step.outputs}
        changes.update(perturbations)
        if isinstance(step, Apply) and not perturbations:
            ends.append(step)
    if any(output in changes for output in graph.outputs):
        return None
    return "; ".join(dict.fromkeys(_said(step, graph) for step in ends)) or "it is not used"


def _through(
    step: Apply, graph: Graph, changes: Mapping[Value, Perturbation]
) -> dict[Value, Perturbation]:
    """The outputs of an operator that change, without its caches."""
    body = step.op.body([graph.types[each] for each in step.inputs], step.attrs)
    pairs = zip(body.operands, step.inputs, strict=True)
    operands = {str(expr.name): changes[each] for expr, each in pairs if each in changes}
    results = zip(step.outputs, propagate(body.outputs, operands), strict=True)
    return {each: change for each, change in results if change and each.role != "cache"}


def _said(step: Apply, graph: Graph) -> str:
    """Why a change ends here: any change would, or only one of whole rows."""
    glyph, line = step.op.glyph, step.span.line
    anyhow = {value: Perturbation(value, frozenset()) for value in step.inputs}
    if not _through(step, graph, anyhow):
        return f"{glyph} in line {line} has no slope"
    return f"it shifts whole rows alike, which {glyph} in line {line} does not see"
