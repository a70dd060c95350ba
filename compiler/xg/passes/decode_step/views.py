"""The place of a cache: the value that is needed whole, or one that it is only a view of.

``K -> BC -> T : KT`` is needed whole as KT. The views cost little and a repetition would make the
cache larger, so K is kept: the first value with a name before anything is repeated.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from xg.ir.body import topological
from xg.ir.graph import Apply, Call, Value
from xg.ir.tensor import TensorType

_VIEWS = frozenset({"operand", "reshape", "transpose", "broadcast"})

Producers = Mapping[Value, Apply | Call]
Types = Mapping[Value, TensorType]


def kept_earlier(value: Value, producers: Producers, types: Types) -> bool:
    """Whether the cache belongs further up than `value`."""
    chain = list(_upwards(value, producers, types))
    if any(repeats for _, repeats in chain):
        return True
    return any(source.name for source, _ in chain) or (bool(chain) and not value.name)


def _upwards(value: Value, producers: Producers, types: Types) -> Iterator[tuple[Value, bool]]:
    """The values that a value is a view of, nearest first, and whether a view repeats elements."""
    while True:
        step = producers.get(value)
        if not isinstance(step, Apply) or len(step.inputs) != 1:
            return
        body = step.op.body([types[step.inputs[0]]], step.attrs)
        prims = {expr.prim for expr in topological(body.outputs)}
        if not prims <= _VIEWS:
            return
        (value,) = step.inputs
        yield value, "broadcast" in prims
