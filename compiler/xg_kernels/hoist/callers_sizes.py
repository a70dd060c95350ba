"""The callee of a loop in the sizes of its caller: D_in of the one is e*D of the other."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from xg.diagnostics.lazy_dataclass import replace
from xg.ir.dim import Dim, symbol
from xg.ir.graph import Apply, Call, Graph
from xg.ir.scalar import Scalar


def same_symbols(call: Call) -> bool:
    """Whether the callee's sizes are the caller's of the same names."""
    return all(dim == symbol(name) for name, dim in call.sizes.items())


def in_sizes_of(caller: Graph, call: Call, callee: Graph) -> tuple[Call, Graph] | None:
    """The call and its callee in the caller's sizes; None where more than types say others."""
    if same_symbols(call):
        return call, callee
    other = {name for name, dim in call.sizes.items() if dim != symbol(name)}
    for step in callee.steps:
        if not isinstance(step, Apply) or _says(step.attrs, other):
            return None
    names = {name for dim in call.sizes.values() for name in dim.symbols()}
    spelled = replace(
        callee,
        types={value: type_.substitute(call.sizes) for value, type_ in callee.types.items()},
        params=tuple(replace(p, type=p.type.substitute(call.sizes)) for p in callee.params),
        output_types=tuple(type_.substitute(call.sizes) for type_ in callee.output_types),
        sizes=caller.sizes,
    )
    return replace(call, sizes={name: symbol(name) for name in sorted(names)}), spelled


def _says(value: object, names: set[str]) -> bool:
    """Whether an attribute says one of these sizes, or may."""
    if isinstance(value, Dim | Scalar):
        return not names.isdisjoint(value.symbols())
    if isinstance(value, Mapping):
        return any(_says(each, names) for each in cast("Mapping[str, object]", value).values())
    if isinstance(value, list | tuple):
        return any(_says(each, names) for each in cast("tuple[object, ...]", value))
    return not isinstance(value, str | int | float | None)
