"""Gradients that are zero for a reason: the reason, derived from the graph, or nothing."""

from __future__ import annotations

from collections.abc import Mapping

from xg.ir.graph import Apply, Graph, Value
from xg.verify.perturbation import Shift, spread


def why_zero(graph: Graph, value: Value) -> str | None:
    """Why no output of a graph depends on a parameter or an input, as far as slopes can tell.

    None if that cannot be shown: then a gradient that is zero is a mistake.
    """
    every = frozenset[int]()
    shifts: dict[Value, Shift] = {value: Shift(value, every)}
    ends: list[Apply] = []
    for step in graph.steps:
        if not any(each in shifts for each in step.inputs):
            continue
        if isinstance(step, Apply):
            found = _through(step, graph, shifts)
        else:
            found = {each: Shift(each, every) for each in step.outputs}
        shifts.update(found)
        if isinstance(step, Apply) and not found:
            ends.append(step)
    if any(output in shifts for output in graph.outputs):
        return None
    return "; ".join(dict.fromkeys(_said(step, graph) for step in ends)) or "it is not used"


def _through(step: Apply, graph: Graph, shifts: Mapping[Value, Shift]) -> dict[Value, Shift]:
    """The outputs of an operator that change, without its caches."""
    body = step.op.body([graph.types[each] for each in step.inputs], step.attrs)
    pairs = zip(body.operands, step.inputs, strict=True)
    operands = {str(expr.name): shifts[each] for expr, each in pairs if each in shifts}
    results = zip(step.outputs, spread(body.outputs, operands), strict=True)
    return {each: shift for each, shift in results if shift and each.role != "cache"}


def _said(step: Apply, graph: Graph) -> str:
    """Why a change ends here: any change would, or only one of whole rows."""
    glyph, line = step.op.glyph, step.span.line
    anyhow = {value: Shift(value, frozenset()) for value in step.inputs}
    if not _through(step, graph, anyhow):
        return f"{glyph} in line {line} has no slope"
    return f"it shifts whole rows alike, which {glyph} in line {line} does not see"
