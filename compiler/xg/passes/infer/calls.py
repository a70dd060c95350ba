"""Calls: operands bind a block's symbols, and its outputs are given in the caller's.

A callee's symbols are its own, even if the caller has the same names. They are bound by the sizes
that the call gives, by the axes of the operands, and by the sizes that these determine: ``[B,
3*D]`` and ``D_h = D/N_H`` determine D as ``[B, D]`` does. Symbols that stay open are the program's.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import count

from xg.diagnostics.diagnostic import Problem, ProblemAt, Span
from xg.diagnostics.lazy_dataclass import dataclass, field, replace
from xg.ir.dim import UNIT, ZERO, Dim, DimError, symbol
from xg.ir.graph import Call, Graph, IRProgram, Loop, Value, drop_axis
from xg.ir.tensor import Sizes, TensorType
from xg.ir.use import advice
from xg.passes.infer.errors import (
    LoopAxis,
    Mistyped,
    OpenSize,
    OpenTwice,
    PortMismatch,
    RepeatChanges,
    SizeClash,
)
from xg.syntax.spelling import greek_name

# Equations of sizes with one unknown each: sizes that a call's operands determine indirectly.


Equation = tuple[Dim, Dim]  # in the callee's symbols, and what it is in the caller's sizes


def solve_equations(symbols: Mapping[str, Dim], equations: Iterable[Equation]) -> dict[str, Dim]:
    """Solve the equations one after the other, and return all symbols with their sizes.

    An equation with several unknowns waits until others have settled all but one.
    """
    settled = dict(symbols)
    waiting = list(equations)
    progress = True
    while progress:
        progress = False
        for formal, actual in waiting:
            name = unknown(formal, settled)
            size = _size(formal, actual, name, settled) if name is not None else None
            if name is not None and size is not None:
                settled[name] = size
                progress = True
    return settled


def settled_names(names: Iterable[str], formals: Collection[Dim]) -> set[str]:
    """The names with those that equations of these left sides determine, for all right sides."""
    settled = set(names)
    while True:
        determined = {name for formal in formals if (name := unknown(formal, settled)) is not None}
        if not determined:
            return settled
        settled |= determined


def unknown(formal: Dim, settled: Collection[str]) -> str | None:
    """The one undetermined symbol of a size, if it occurs in one term and is no square."""
    names = [name for name in formal.symbols() if name not in settled]
    if len(names) != 1:
        return None
    powers = [power for monomial, _ in formal.terms for n, power in monomial if n == names[0]]
    return names[0] if powers in ([1], [-1]) else None


def _size(formal: Dim, actual: Dim, name: str, settled: Mapping[str, Dim]) -> Dim | None:
    """Solve ``formal == actual`` for the symbol `name`; return None if it has no valid size."""
    ((monomial, coefficient),) = (term for term in formal.terms if name in dict(term[0]))
    rest = tuple(term for term in formal.terms if name not in dict(term[0]))
    beside = tuple(factor for factor in monomial if factor[0] != name)
    factor = Dim(((beside or UNIT, coefficient),)).substitute(settled)
    left = actual - Dim(rest).substitute(settled)
    if left == ZERO or factor == ZERO:
        return None
    try:
        size = left / factor if dict(monomial)[name] == 1 else factor / left
    except DimError:
        return None
    if size.symbols():
        return size
    return size if size.constant is not None and size.constant > 0 else None


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
    symbols = unifier.solve()
    freed = _free_symbols(symbols, call, callee, caller)
    binding = CallBinding(symbols, freed, callee.sizes.drop_symbols(freed), caller.sizes)
    for port, actual in zip(ports, types, strict=True):
        if binding.translate(_declared_type(port)) != actual:
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
        formal = _declared_type(port)
        if len(formal.shape) != len(actual.shape) or formal.is_float != actual.is_float:
            raise Mistyped(_mismatch(self.call, self.callee, port, actual, self.caller))
        for dim, size in _dims(formal, actual):
            if dim.name is None:
                self.equations.append((dim, size))
            elif self.symbols.setdefault(dim.name, size) != size:
                raise Mistyped(self._clash(dim.name, size, port))
            else:
                self.places.setdefault(dim.name, port.span)

    def solve(self) -> dict[str, Dim]:
        """All symbols, with those that products and definitions settle."""
        fixed = self.callee.sizes.definitions
        sizes = self.callee.sizes.drop_symbols(frozenset(self.symbols))
        defined = [(fixed[name], size) for name, size in self.symbols.items() if name in fixed]
        equations = [*self.equations, *defined]
        return solve_equations(self.symbols, [(sizes.expand(dim), size) for dim, size in equations])

    def _clash(self, name: str, size: Dim, port: Value) -> SizeClash:
        sizes = self.caller.sizes
        first, second = (str(sizes.fold(dim)) for dim in (self.symbols[name], size))
        places = self.places.get(name, self.call.span), port.span
        return SizeClash(self.call.span, self.callee.block, name, first, second, places)


def _free_symbols(
    symbols: Mapping[str, Dim], call: Call, callee: Graph, caller: Graph
) -> frozenset[str]:
    """The symbols whose definition or number does not hold for this call.

    A definition in sizes of the program does not hold where the caller's go by the same names, nor
    does a number that the callee has for itself.
    """
    freed: set[str] = set()
    bound = bound_names(caller) | (callee.sizes.local & callee.sizes.defaults.keys())
    sizes = callee.sizes.drop_symbols(frozenset(symbols))
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
    dims = [dim for port in graph.inputs for dim in _type_sizes(_declared_type(port))]
    named = {dim.name for dim in dims if dim.name}
    fixed = graph.sizes.definitions
    sizes = graph.sizes.drop_symbols(frozenset(named))
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


def _declared_type(port: Value) -> TensorType:
    assert port.declared is not None
    return port.declared


def _type_sizes(type_: TensorType) -> tuple[Dim, ...]:
    """Every size that a type mentions."""
    return (*type_.shape, *([type_.range] if type_.range is not None else []))


def _dims(formal: TensorType, actual: TensorType) -> list[tuple[Dim, Dim]]:
    return list(zip(_type_sizes(formal), _type_sizes(actual), strict=True))


def _mismatch(
    call: Call, callee: Graph, port: Value, actual: TensorType, caller: Graph
) -> PortMismatch:
    shape = str(caller.sizes.fold_type(actual))
    names = [str(caller.sizes.fold(dim)) for dim in actual.shape]
    declared = _declared_type(port)
    help = advice(actual.shape, caller.sizes.expand_type(declared).shape, names)
    if actual.range and declared.is_float and len(actual.shape) == len(declared.shape):
        integers = f"{port.name} {declared} in {caller.sizes.fold(actual.range)}"
        help = f"declare the range of an integer port: `{integers}`"
    return PortMismatch(
        call.span, callee.block, str(port.name), str(declared), shape, port.span, help
    )


# Calls over an axis: which operands are taken apart, and where results are put together.


def taken_apart(
    call: Call, callee: Graph, types: Sequence[TensorType], sizes: Sizes
) -> tuple[int | None, ...]:
    """For every operand the axis that the loop goes along; None if each round has the whole.

    An operand with one axis more than its port is taken apart. Raises Mistyped where such an
    operand has the axis never or twice, and where no operand has it and no state tells the rounds
    from each other.
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
    pairs = zip(types, callee.inputs, strict=False)
    odd = [
        i for i, (t, p) in enumerate(pairs) if p.declared and len(t.shape) != len(p.declared.shape)
    ]
    if all(axis is None for axis in axes) and (odd or not callee.carries):
        place = odd[0] if odd else 0
        raise Mistyped(_axis(call, callee, sizes, call.inputs[place], types[place], 0))
    return tuple(axes)


def complete_loop(
    call: Call, callee: Graph, apart: Sequence[int | None], first: TensorType | None, length: Dim
) -> Loop:
    """Complete the loop of a call with the axes along which its operands are unstacked.

    Results are stacked along the axis at the place, from the left, where the first operand that is
    taken apart has it; in front, if every round has the whole of all operands.
    """
    assert call.loop
    states = len(callee.carries)
    places = (len(first.shape) + axis for axis in apart if first and axis is not None)
    place = next(places, 0)
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
    return [drop_axis(type_, axis) for type_, axis in zip(types, apart, strict=True)]


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


# Sizes that a call leaves open: they are the program's, and must not look like the caller's.


Graphs = Mapping[str, Graph]


def open_sizes(graphs: Graphs, numbers: Mapping[str, int]) -> Iterator[OpenSize | OpenTwice]:
    """The errors in sizes that calls of typed graphs leave open; `graphs` has callees first.

    `numbers` are the program's, where graphs have others.
    """
    left: dict[str, dict[str, str]] = {}
    for key, graph in graphs.items():
        bound = bound_names(graph)
        names = {name: graph.block for name in _mentioned_dims(graph) if not _is_own(name, graph)}
        for call in graph.calls:
            opened = {n: b for n, b in left[call.callee].items() if n not in call.sizes}
            callee = graphs[call.callee]
            known = {**callee.sizes.defaults, **numbers}
            yield from _open_size_errors(graph, call, callee, opened, bound, known)
            names |= {name: block for name, block in opened.items() if name not in bound}
        left[key] = names


def _open_size_errors(
    graph: Graph,
    call: Call,
    callee: Graph,
    opened: Mapping[str, str],
    bound: frozenset[str],
    numbers: Mapping[str, int],
) -> Iterator[OpenSize | OpenTwice]:
    for name, block in opened.items():
        definition = callee.sizes.definitions.get(name)
        number = numbers.get(name) if name in callee.sizes.defaults else None
        if definition is None and number is None:
            ours = name in bound or name in graph.mentions
            yield OpenSize(call.span, callee.block, name, block, name if ours else "…")
        elif name in bound and name not in callee.sizes.local:
            program = str(definition or number)
            yield OpenTwice(call.span, callee.block, name, block, graph.block, program)


def _is_own(name: str, graph: Graph) -> bool:
    """Whether a block says itself what a symbol is."""
    sizes = graph.sizes
    return name in sizes.local and (name in sizes.definitions or name in sizes.defaults)


def _mentioned_dims(graph: Graph) -> list[str]:
    """The dims that a graph's text mentions, with those by which they are defined."""
    waiting, mentioned = list(graph.mentions), dict[str, None]()
    while waiting:
        name = waiting.pop()
        if name not in mentioned:
            mentioned[name] = None
            needed = graph.sizes.definitions.get(name)
            waiting += needed.symbols() if needed else ()
    return list(mentioned)


# Errors that only repeat that a call leaves a size open: in steps behind what it makes of it.


def behind_open_sizes(
    program: IRProgram, opened: Collection[OpenSize | OpenTwice], problems: Iterable[Problem]
) -> Iterator[Problem]:
    """Yield the problems that follow from a size that a call has left open."""
    if opened:
        spans = {
            s for graph in program.graphs.values() for s in _dependent_spans(program, graph, opened)
        }
        yield from (each for each in problems if isinstance(each, ProblemAt) and each.span in spans)


def _dependent_spans(
    program: IRProgram, graph: Graph, opened: Iterable[OpenSize | OpenTwice]
) -> Iterator[Span]:
    """Yield the places of steps and labels that depend on a result with an open size."""
    names = {(each.span, each.symbol) for each in opened}
    unknown: set[Value] = set()
    for step in graph.steps:
        if unknown.intersection(step.inputs):
            unknown.update(step.outputs)
            yield step.span
        elif isinstance(step, Call):
            types = program.graphs[step.callee].output_types
            unknown.update(
                value
                for value, made in zip(step.outputs, types, strict=False)
                if any((step.span, name) in names for dim in made.shape for name in dim.symbols())
            )
    yield from (span for value, _, span in graph.claims if value in unknown)
