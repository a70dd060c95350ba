"""Types of the values inside fused steps."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from xg.ir.graph import Apply, Value
from xg.ir.tensor import TensorType


def with_parts(
    types: Mapping[Value, TensorType], parts: Iterable[Apply]
) -> dict[Value, TensorType]:
    """Types of values, with those inside a fused step if they have its operands."""
    known = dict(types)
    for step in parts:
        if all(value in known for value in step.inputs):
            body = step.body(known)
            for value, expression in zip(step.outputs, body.outputs, strict=True):
                known.setdefault(value, TensorType(expression.shape))
    return known
