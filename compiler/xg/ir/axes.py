"""Every size that a typed graph mentions, on its edges and inside its operators."""

from __future__ import annotations

from xg.diagnostics.source import Span
from xg.ir.dim import Dim
from xg.ir.graph import Apply, Graph
from xg.ir.prim import Expr
from xg.ir.window_prims import Windows


def _padded(expr: Expr) -> tuple[Dim, ...]:
    """The length of an axis with the zeros in front that windows of it reach."""
    if expr.prim not in ("window", "overlap"):
        return ()
    cut = Windows.of(expr)
    return (cut.length + cut.before,)


def axes_of(graph: Graph, *, numbers: bool = False) -> dict[Dim, Span]:
    """Every length of an axis and every range once, with a place that has it.

    Those that are plain numbers only where they are asked for.
    """
    spans: dict[Dim, Span] = {}
    for value, type_ in graph.types.items():
        for dim in (*type_.shape, *([type_.range] if type_.range else [])):
            spans.setdefault(dim, value.span)
    for step in graph.steps:
        if isinstance(step, Apply):
            body = step.body(graph.types)
            for expr in body.order():
                for dim in (*expr.shape, *_padded(expr)):
                    spans.setdefault(dim, step.span)
    return {dim: span for dim, span in spans.items() if numbers or dim.constant is None}
