"""Calls: operands bind a block's symbols, and its outputs are given in the caller's.

A callee's symbols are its own, even if the caller has the same names. They are bound by the sizes
that the call gives, by the axes of the operands, and by the sizes that these determine: ``[B,
3*D]`` and ``D_h = D/N_H`` determine D as ``[B, D]`` does. Symbols that stay open are the program's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xg.diagnostics.lazy_dataclass import dataclass, field
from xg.diagnostics.source import Span
from xg.ir.dim import Dim, symbol
from xg.ir.graph import Call, Graph, Value
from xg.ir.tensor import Sizes, TensorType
from xg.ir.use import advice
from xg.passes.infer.errors import Mistyped, PortMismatch, RepeatChanges, SizeClash
from xg.passes.infer.solve import settled_names, solved


@dataclass(frozen=True, slots=True)
class CallBinding:
    """The binding of a call: the callee's symbols in the caller's sizes.

    `freed` are callee symbols that the file fixes, but this call does not obey (``S = N_P + 1``
    while S is something else here): the callee is typed without that definition or number.
    """

    symbols: Mapping[str, Dim]
    freed: frozenset[str]
    callee: Sizes
    caller: Sizes

    def translate(self, type_: TensorType) -> TensorType:
        """A type of the callee in the caller's expanded sizes."""
        return self.caller.expand_type(self.callee.expand_type(type_).substitute(self.symbols))


def bind(call: Call, callee: Graph, types: Sequence[TensorType], caller: Graph) -> CallBinding:
    """The binding of a call whose operands, but for states, have these (expanded) types."""
    ports = callee.inputs[: len(types)]
    unifier = _Unifier(call, callee, caller, dict(call.sizes))
    for port, actual in zip(ports, types, strict=True):
        unifier.port(port, actual)
    symbols = unifier.solved()
    freed = _freed(symbols, call, callee, caller)
    binding = CallBinding(symbols, freed, callee.sizes.without(freed), caller.sizes)
    for port, actual in zip(ports, types, strict=True):
        if binding.translate(_declared(port)) != actual:
            raise Mistyped(_mismatch(call, callee, port, actual, caller))
    return binding


@dataclass(slots=True)
class _Unifier:
    """Finds what the symbols of a callee are; `symbols` begins with what the call gives."""

    call: Call
    callee: Graph
    caller: Graph
    symbols: dict[str, Dim]
    places: dict[str, Span] = field(default_factory=dict[str, Span])
    equations: list[tuple[Dim, Dim]] = field(default_factory=list[tuple[Dim, Dim]])

    def port(self, port: Value, actual: TensorType) -> None:
        """Bind the symbols that are axes of a port."""
        formal = _declared(port)
        if len(formal.shape) != len(actual.shape) or formal.is_float != actual.is_float:
            raise Mistyped(_mismatch(self.call, self.callee, port, actual, self.caller))
        for dim, size in _dims(formal, actual):
            if dim.name is None:
                self.equations.append((dim, size))
            elif self.symbols.setdefault(dim.name, size) != size:
                raise Mistyped(self._clash(dim.name, size, port))
            else:
                self.places.setdefault(dim.name, port.span)

    def solved(self) -> dict[str, Dim]:
        """All symbols, with those that products and definitions settle."""
        fixed = self.callee.sizes.definitions
        sizes = self.callee.sizes.without(frozenset(self.symbols))
        defined = [(fixed[name], size) for name, size in self.symbols.items() if name in fixed]
        equations = [*self.equations, *defined]
        return solved(self.symbols, [(sizes.expand(dim), size) for dim, size in equations])

    def _clash(self, name: str, size: Dim, port: Value) -> SizeClash:
        sizes = self.caller.sizes
        first, second = (str(sizes.fold(dim)) for dim in (self.symbols[name], size))
        places = self.places.get(name, self.call.span), port.span
        return SizeClash(self.call.span, self.callee.block, name, first, second, places)


def _freed(symbols: Mapping[str, Dim], call: Call, callee: Graph, caller: Graph) -> frozenset[str]:
    """The symbols whose definition or number does not hold for this call.

    A definition in sizes of the program does not hold where the caller's go by the same names, nor
    does a number that the callee has for itself.
    """
    freed: set[str] = set()
    bound = bound_names(caller) | (callee.sizes.local & callee.sizes.defaults.keys())
    sizes = callee.sizes.without(frozenset(symbols))
    for name, size in symbols.items():
        if name in callee.sizes.definitions:
            definition = sizes.expand(callee.sizes.definitions[name])
            program = set(definition.symbols()) - symbols.keys()
            value = caller.sizes.expand(definition.substitute(symbols))
            if value != size or program & bound:
                freed.add(name)
        elif name in call.sizes and (size != symbol(name) or name in bound):
            freed.add(name)
    return frozenset(freed)


def bound_names(graph: Graph) -> frozenset[str]:
    """The symbols of a graph that are not the program's: its own, and what its inputs settle."""
    dims = [dim for port in graph.inputs for dim in _whole(_declared(port))]
    named = {dim.name for dim in dims if dim.name}
    fixed = graph.sizes.definitions
    sizes = graph.sizes.without(frozenset(named))
    defined = [fixed[name] for name in named if name in fixed]
    names = settled_names(named, [sizes.expand(dim) for dim in (*dims, *defined)])
    return graph.sizes.local | {name for name in names if name not in fixed}


def output_types(call: Call, callee: Graph, binding: CallBinding) -> list[TensorType]:
    """Types of a call's outputs, as its ports declare them."""
    return [binding.translate(declared) for declared in callee.output_types]


def check_repeat(
    call: Call, callee: Graph, taken: Sequence[TensorType], after: TensorType, sizes: Sizes
) -> None:
    """Refuse a row of calls whose output is no next input."""
    if call.count is not None and taken[0] != after:
        shapes = str(sizes.fold_type(taken[0])), str(sizes.fold_type(after))
        raise Mistyped(RepeatChanges(call.span, callee.block, *shapes, callee.inputs[0].span))


def _declared(port: Value) -> TensorType:
    assert port.declared is not None
    return port.declared


def _whole(type_: TensorType) -> tuple[Dim, ...]:
    """Every size that a type mentions."""
    return (*type_.shape, *([type_.range] if type_.range is not None else []))


def _dims(formal: TensorType, actual: TensorType) -> list[tuple[Dim, Dim]]:
    return list(zip(_whole(formal), _whole(actual), strict=True))


def _mismatch(
    call: Call, callee: Graph, port: Value, actual: TensorType, caller: Graph
) -> PortMismatch:
    shape = str(caller.sizes.fold_type(actual))
    names = [str(caller.sizes.fold(dim)) for dim in actual.shape]
    declared = _declared(port)
    help = advice(actual.shape, caller.sizes.expand_type(declared).shape, names)
    if actual.range and declared.is_float and len(actual.shape) == len(declared.shape):
        integers = f"{port.name} {declared} in {caller.sizes.fold(actual.range)}"
        help = f"a port of integers says their range: `{integers}`"
    return PortMismatch(
        call.span, callee.block, str(port.name), str(declared), shape, port.span, help
    )
