"""Losses of a block: the output that training minimizes, and the targets that do not count."""

from __future__ import annotations

from typing import TypeGuard

from xg.ir.graph import Apply, Graph, Step, Value
from xg.ir.scalar import Scalar


def scalars(graph: Graph) -> tuple[str, ...]:
    """The outputs that are single floats."""
    return tuple(
        name
        for name, value in zip(graph.output_names, graph.outputs, strict=True)
        if graph.types[value].is_float and not graph.types[value].shape
    )


def loss_of(graph: Graph) -> str | None:
    """The output `loss`, or the only single number; None where neither is there."""
    names = scalars(graph)
    return names[0] if len(names) == 1 else next((name for name in names if name == "loss"), None)


def is_loss(step: Step) -> TypeGuard[Apply]:
    """Whether a step compares its first operand with targets."""
    return isinstance(step, Apply) and step.op.family == "loss"


def ignored(graph: Graph, value: Value) -> int | None:
    """The id outside the range of an input that a loss takes for "no target here"."""
    for step in graph.steps:
        if isinstance(step, Apply) and value in step.inputs:
            ignored = step.attrs.get("ignore")
            if isinstance(ignored, Scalar):
                return int(ignored.evaluate({}))
    return None
