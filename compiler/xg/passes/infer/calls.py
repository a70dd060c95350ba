"""Calls: a block's symbols are bound by what arrives, and its outputs speak in the caller's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from xg.ir.dim import Dim
from xg.ir.graph import Call, Graph, Value
from xg.ir.tensor import Sizes, TensorType
from xg.passes.infer.advice import advice
from xg.passes.infer.errors import Mistyped, PortMismatch, RepeatChanges, SizeClash


@dataclass(frozen=True, slots=True)
class Binding:
    """What a call means: the callee's symbols in the caller's sizes.

    `freed` are callee symbols that a definition of the file fixes, but this call does not obey
    (``S = N_P + 1`` while S is something else here): the callee is typed without that definition.
    """

    symbols: Mapping[str, Dim]
    freed: frozenset[str]
    callee: Sizes
    caller: Sizes

    def translate(self, type_: TensorType) -> TensorType:
        """A type of the callee in the caller's expanded sizes."""
        return self.caller.expand_type(self.callee.expand_type(type_).substitute(self.symbols))


def bind(call: Call, callee: Graph, types: Sequence[TensorType], caller: Graph) -> Binding:
    """The binding of a call whose operands have these (expanded) types."""
    symbols: dict[str, Dim] = {}
    bound: dict[str, Value] = {}
    for port, actual in zip(callee.inputs, types, strict=True):
        formal = _declared(port)
        if len(formal.shape) != len(actual.shape) or formal.is_float != actual.is_float:
            raise Mistyped(_mismatch(call, callee, port, actual, caller))
        for dim, found in _dims(formal, actual):
            if dim.name is not None and symbols.setdefault(dim.name, found) != found:
                ports = bound[dim.name].span, port.span
                first, second = (str(caller.sizes.fold(d)) for d in (symbols[dim.name], found))
                raise Mistyped(SizeClash(call.span, callee.block, dim.name, first, second, ports))
            bound.setdefault(dim.name or "", port)
    freed = frozenset(
        name
        for name, found in symbols.items()
        if name in callee.sizes.definitions
        and caller.sizes.expand(callee.sizes.definitions[name].substitute(symbols)) != found
    )
    binding = Binding(symbols, freed, callee.sizes.without(freed), caller.sizes)
    for port, actual in zip(callee.inputs, types, strict=True):
        if binding.translate(_declared(port)) != actual:
            raise Mistyped(_mismatch(call, callee, port, actual, caller))
    return binding


def output_types(call: Call, callee: Graph, binding: Binding) -> list[TensorType]:
    """Types of a call's outputs, as its ports declare them."""
    return [binding.translate(declared) for declared in callee.output_types]


def check_repeat(
    call: Call, callee: Graph, before: TensorType, after: TensorType, sizes: Sizes
) -> None:
    """Refuse a row of calls whose output is no next input."""
    if call.count is not None and before != after:
        shapes = _spell(before, sizes), _spell(after, sizes)
        raise Mistyped(RepeatChanges(call.span, callee.block, *shapes, callee.inputs[0].span))


def _declared(port: Value) -> TensorType:
    assert port.declared is not None
    return port.declared


def _dims(formal: TensorType, actual: TensorType) -> list[tuple[Dim, Dim]]:
    pairs = list(zip(formal.shape, actual.shape, strict=True))
    if formal.range is not None and actual.range is not None:
        pairs.append((formal.range, actual.range))
    return pairs


def _mismatch(
    call: Call, callee: Graph, port: Value, actual: TensorType, caller: Graph
) -> PortMismatch:
    found = _spell(actual, caller.sizes)
    names = [str(caller.sizes.fold(dim)) for dim in actual.shape]
    declared = _declared(port)
    help = advice(actual.shape, caller.sizes.expand_type(declared).shape, names)
    return PortMismatch(
        call.span, callee.block, str(port.name), str(declared), found, port.span, help
    )


def _spell(type_: TensorType, sizes: Sizes) -> str:
    range_ = sizes.fold(type_.range) if type_.range is not None else None
    return str(TensorType(sizes.fold_shape(type_.shape), range_))
