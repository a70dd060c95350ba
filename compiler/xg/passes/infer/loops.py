"""Calls over an axis: which operands are taken apart, and where results are put together."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from itertools import count

from xg.ir.dim import Dim, symbol
from xg.ir.graph import Call, Graph, Loop, Value, without
from xg.ir.tensor import Sizes, TensorType
from xg.passes.infer.errors import LoopAxis, Mistyped
from xg.syntax.spelling import greek_name


def taken_apart(
    call: Call, callee: Graph, types: Sequence[TensorType], sizes: Sizes
) -> tuple[int | None, ...]:
    """For every operand the axis that the loop goes along; None if each round has the whole.

    An operand with one axis more than its port is taken apart. Raises Mistyped where such an
    operand has the axis never or twice, and where no operand has it.
    """
    assert call.loop
    length = sizes.expand(call.loop.length)
    axes: list[int | None] = []
    for value, port, type_ in zip(call.inputs, callee.inputs, types, strict=False):
        assert port.declared is not None
        if len(type_.shape) != len(port.declared.shape) + 1:
            axes.append(None)
            continue
        places = [
            place for place, dim in enumerate(type_.shape, -len(type_.shape)) if dim == length
        ]
        if len(places) != 1:
            raise Mistyped(_axis(call, callee, sizes, value, type_, len(places)))
        axes.append(places[0])
    if all(axis is None for axis in axes):
        raise Mistyped(_axis(call, callee, sizes, call.inputs[0], types[0], 0))
    return tuple(axes)


def completed(
    call: Call, callee: Graph, apart: Sequence[int | None], first: TensorType, length: Dim
) -> Loop:
    """The loop of a call whose operands are taken apart so.

    Results are stacked along the axis at the place, from the left, where the first operand that is
    taken apart has it.
    """
    assert call.loop
    states = len(callee.carries)
    place = next(len(first.shape) + axis for axis in apart if axis is not None)
    visible = callee.output_types[: len(callee.outputs) - states]
    stacked = tuple(min(place, len(t.shape)) - len(t.shape) - 1 for t in visible)
    rounds = (None,) * states
    return replace(
        call.loop,
        length=length,
        inputs=(*apart, *rounds),
        outputs=(*stacked, *rounds),
        states=states,
    )


def rounds_types(types: Sequence[TensorType], apart: Sequence[int | None]) -> list[TensorType]:
    """The types that one round is given."""
    return [without(type_, axis) for type_, axis in zip(types, apart, strict=True)]


def sizes_of_starts(
    call: Call, callee: Graph, types: Mapping[Value, TensorType], bound: Collection[str]
) -> dict[str, Dim]:
    """The sizes that a call gives, with those that only its starts settle.

    A state's axis that no operand has is that of the start; `bound` are the caller's own names.
    """
    sizes, taken = callee.sizes, callee.inputs[: len(callee.inputs) - len(callee.carries)]
    declared = [port.declared for port in taken if port.declared is not None]
    dims = [dim for type_ in declared for dim in (*type_.shape, *filter(None, [type_.range]))]
    settled = {*sizes.definitions, *call.sizes}
    settled |= {name for dim in dims for name in (*dim.symbols(), *sizes.expand(dim).symbols())}
    given = dict(call.sizes)
    for carry in callee.carries:
        state = carry.past.declared
        start = types.get(call.starts[carry.name]) if carry.name in call.starts else None
        if state is None or start is None or len(state.shape) != len(start.shape):
            continue
        for dim, size in zip(state.shape, start.shape, strict=True):
            is_program = size == symbol(str(dim.name)) and dim.name not in bound
            if dim.name is not None and dim.name not in settled and not is_program:
                given.setdefault(dim.name, size)
    return given


def start_advice(
    state: str,
    value: Value,
    found: TensorType,
    wanted: TensorType,
    written: str,
    known: Collection[Value],
) -> str:
    """How a value that lacks axes of a state becomes one that it can start as, or nothing."""
    rest = iter(wanted.shape)
    if value.name is None or found.range != wanted.range:
        return ""
    if len(found.shape) == len(wanted.shape) or not all(dim in rest for dim in found.shape):
        return ""
    names = {each.name for each in known}
    edge = next(each for i in count() if (each := f"{state}_{i}") not in names)
    first, name = greek_name(value.name), greek_name(state)
    repeated = f"BC({first}) : {greek_name(edge)} {written}"
    return f"write `{repeated}` in a line above, and `{name}={greek_name(edge)}` here"


def _axis(
    call: Call, callee: Graph, sizes: Sizes, value: Value, type_: TensorType, count: int
) -> LoopAxis:
    assert call.loop
    shape = "[" + ", ".join(str(sizes.fold(dim)) for dim in type_.shape) + "]"
    name = str(sizes.fold(call.loop.length))
    taken = callee.inputs[: len(callee.inputs) - len(callee.carries)]
    ports = ", ".join(f"{port.name} {port.declared}" for port in taken)
    folded = [sizes.fold(dim) for dim in type_.shape]
    formulas = [str(dim) for dim in folded if dim.name is None and name in dim.symbols()]
    formula = formulas[0] if not count and len(formulas) == 1 else ""
    told = name, shape, value.span, count, ports, formula
    rest = [str(dim) for dim in folded if str(dim) != name]
    port = next(
        (port for port, given in zip(taken, call.inputs, strict=False) if given is value), None
    )
    if count or len(rest) + 1 != len(folded) or port is None:
        return LoopAxis(call.span, callee.block, *told)
    return LoopAxis(
        call.span, callee.block, *told, f"[{', '.join(rest)}]", f"{port.name} {port.declared}"
    )
