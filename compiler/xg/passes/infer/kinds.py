"""Integers where floats are needed, or the other way round."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from xg.diagnostics.lazy_dataclass import replace
from xg.ir.dim import Dim, number
from xg.ir.graph import Apply, Call, Value
from xg.ir.tensor import Sizes, TensorType
from xg.ir.use import Data, Tensor
from xg.passes.infer.errors import Mistyped, WrongKind
from xg.syntax.spelling import greek_name

PAIR: Final = 2  # operands in each other's place


def check_kinds(
    node: Apply, types: Sequence[TensorType], sizes: Sizes, above: Sequence[Apply | Call]
) -> None:
    """Refuse operands of the wrong kind; `above` are the steps that make them."""
    absent = node.attrs.get("absent", ())
    slots: list[Data | Tensor] = [d for d in node.op.data if d.name not in absent]
    for value, slot, type_ in zip(node.inputs, slots, types, strict=False):
        expected = slot.kind if isinstance(slot, Data) else "float"
        if expected != "any" and (expected == "float") != type_.is_float:
            problem = _wrong_kind(node, value, slot, types, type_, sizes)
            meant = _exchanged(node, slots, types) or _instead(node, value, slot, type_, above)
            raise Mistyped(replace(problem, instead=meant))


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
    axes = type_.shape
    if node.op.glyph == "CE" and axes == types[0].shape:  # a row of zeros and a one for each
        axes = axes[:-1]
    name, shape = value.name if enters else "NAME", TensorType(sizes.fold_shape(axes))
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


def _exchanged(node: Apply, slots: Sequence[Data | Tensor], types: Sequence[TensorType]) -> str:
    """The operands of arrows in their order, where two are in each other's place."""
    kinds = [slot.kind if isinstance(slot, Data) else "float" for slot in slots]
    found = ["float" if type_.is_float else "int" for type_ in types]
    pairs = enumerate(zip(kinds, found, strict=False))
    wrong = [place for place, (kind, is_) in pairs if kind not in ("any", is_)]
    if len(wrong) != PAIR or kinds[wrong[0]] != found[wrong[1]]:
        return ""
    if 0 in wrong:
        first, second = (greek_name(value.name or "…") for value in node.inputs[:2])
        return f"turn them round: `{second} -> {node.op.glyph}<-{first}`" if wrong[1] == 1 else ""
    order = list(node.inputs[: len(slots)])
    order[wrong[0]], order[wrong[1]] = order[wrong[1]], order[wrong[0]]
    names = [value.name for value in order[1:]]
    if not all(names):
        return ""
    arrows = "".join(f"<-{greek_name(name or '')}" for name in names)
    return f"operands come in their order: write `{node.op.glyph}{arrows}`"


def _instead(
    node: Apply,
    value: Value,
    slot: Data | Tensor,
    type_: TensorType,
    above: Sequence[Apply | Call],
) -> str:
    """The places that were chosen with the values given, or the signature that takes integers."""
    if isinstance(slot, Tensor):
        return ""
    if type_.range is not None:
        if node.op.name == "matmul" and value is node.inputs[0]:
            ids, table = (greek_name(each.name or "…") for each in node.inputs)
            is_table = node.inputs[1].role == "param"
            return f"rows of a table are `{ids} -> Emb({table})`" if is_table else ""
        if not slot.axes:  # an operator of the language
            return ""
        axes = ", ".join(slot.axes)
        return (
            f"{node.op.glyph} takes integers where its signature says so: {slot.name} [{axes}] in N"
        )
    if node.op.glyph == "not":
        return "1 less a float is an operator of yours: `op rest(x) = 1 - x`"
    made = next((step for step in above if value in step.outputs), None)
    if node.op.glyph == "combine":
        return "dispatch gives the places, as its second result"
    if not isinstance(made, Apply) or made.op.glyph != "topk":
        return ""
    place = made.outputs[1].name
    told = f"{greek_name(value.name or 'the first')} are the values that topk chose"
    return f"{told}, and {greek_name(place)} their places" if place else ""


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
        for data, shape in zip(node.op.data, shapes, strict=False):
            if below in data.axes and len(shape) >= len(data.axes):
                return shape[data.axes.index(below) - len(data.axes)]
        return below
    if slot.name in ("m", "w"):
        return number(2)
    if node.op.glyph == "Emb":
        return next(iter(shapes[1]), None)
    return next(reversed(shapes[0]), None) if node.op.glyph == "CE" else None
