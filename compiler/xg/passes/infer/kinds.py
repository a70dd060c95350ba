"""Integers where floats are needed, or the other way round."""

from __future__ import annotations

from collections.abc import Sequence

from xg.ir.dim import Dim, number
from xg.ir.graph import Apply, Value
from xg.ir.tensor import Sizes, TensorType
from xg.ir.use import Data, Tensor
from xg.passes.infer.errors import Mistyped, WrongKind


def check_kinds(node: Apply, types: Sequence[TensorType], sizes: Sizes) -> None:
    """Refuse operands of the wrong kind."""
    absent = node.attrs.get("absent", ())
    slots: list[Data | Tensor] = [d for d in node.op.data if d.name not in absent]
    for value, slot, type_ in zip(node.inputs, slots, types, strict=False):
        expected = slot.kind if isinstance(slot, Data) else "float"
        if expected != "any" and (expected == "float") != type_.is_float:
            raise Mistyped(_wrong_kind(node, value, slot, types, type_, sizes))


def _wrong_kind(
    node: Apply,
    value: Value,
    slot: Data | Tensor,
    types: Sequence[TensorType],
    type_: TensorType,
    sizes: Sizes,
) -> WrongKind:
    floats = isinstance(slot, Tensor) or slot.kind == "float"
    below = None if isinstance(slot, Tensor) else _integers_below(node, slot, types)
    size = sizes.fold(below) if isinstance(below, Dim) else below or "V"
    enters = value.role == "input"
    how = "declare it as an index" if enters else "integers enter as an input"
    name, shape = value.name if enters else "NAME", TensorType(sizes.fold_shape(type_.shape))
    wanted, found = ("floats", "integers") if floats else ("integers", "floats")
    shipped = isinstance(slot, Tensor) or slot.below is None
    told = (
        slot.name,
        wanted,
        found,
        how,
        f"{name} {shape} in {size}",
        shipped,
        _is_listed(node, slot),
    )
    return WrongKind(node.span, node.op.glyph, *told)


def _is_listed(node: Apply, slot: Data | Tensor) -> bool:
    """Whether another operand of a defined operator has the same axes and range."""
    if isinstance(slot, Tensor) or slot.below is None:
        return False
    same = [each for each in node.op.data if (each.axes, each.below) == (slot.axes, slot.below)]
    return len(same) > 1


def _integers_below(node: Apply, slot: Data, types: Sequence[TensorType]) -> Dim | str | None:
    """The number that an operand of integers stays below, where the operator says it."""
    shapes = [type_.shape for type_ in types]
    if slot.below is not None:
        below = str(slot.below)
        named = zip(node.op.data, shapes, strict=False)
        found = (s[d.axes.index(below) - len(d.axes)] for d, s in named if below in d.axes)
        return next(found, below)
    if slot.name in ("m", "w"):
        return number(2)
    if node.op.glyph == "Emb":
        return shapes[1][0]
    return shapes[0][-1] if node.op.glyph == "CE" else None
