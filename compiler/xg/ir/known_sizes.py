"""Find the sizes that shapes of arrays tell, and the arrays that tell a function its sizes.

An axis of 2*T says how large T is, and one of N + k - 1 how large N is where k is known.

Sizes are solved for only where they occur once and to no power: a root may be no integer, and a
divisor may be 0. A file may leave a size to `--set`, so an unknown one is a warning.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from xg.diagnostics.lazy_dataclass import dataclass
from xg.ir.dim import ONE, ZERO, Dim, DimError, number, symbol
from xg.ir.graph import Apply, Graph, IRProgram
from xg.ir.parameters import join
from xg.ir.scalar import Scalar
from xg.ir.tensor import Shape, Sizes
from xg.ir.walk import inside


@dataclass(frozen=True, slots=True)
class ImpliedSize:
    """A size by the length of an axis: (length * parts - rest) / factor.

    `index` counts the shapes, `axis` the axes of that shape; of a rank's axis there are `parts`.
    """

    index: int
    axis: int
    parts: Dim
    rest: Dim
    factor: Dim

    def of(self, length: int, numbers: Mapping[str, int]) -> int | None:
        """Compute the size for this length of the axis; None if it is no size or not known."""
        if not numbers.keys() >= {*self.symbols()}:
            return None
        try:
            return ((number(length) * self.parts - self.rest) / self.factor).evaluate(numbers)
        except DimError:
            return None

    def symbols(self) -> tuple[str, ...]:
        """The sizes that must be known before."""
        dims = (self.parts, self.rest, self.factor)
        return tuple(dict.fromkeys(name for dim in dims for name in dim.symbols()))


def implied_sizes(
    shapes: Sequence[Shape], sizes: Sizes, known: Collection[str]
) -> dict[str, ImpliedSize]:
    """Find the sizes beyond the `known` ones that shapes imply, each after the sizes it needs.

    An axis of D_h says how large that is, also where nothing says so of D and N_H in D/N_H.
    """
    axes = [
        (index, axis, *sizes.size_and_parts(sizes.expand(dim)))
        for index, shape in enumerate(shapes)
        for axis, dim in enumerate(shape)
    ]
    found: dict[str, ImpliedSize] = {}
    growing = True
    while growing:
        growing = False
        for index, axis, whole, parts in axes:
            open_ = [n for n in whole.symbols() if n not in known and n not in found]
            if len(open_) == 1 and (factor := _factor(whole, open_[0])) is not None:
                rest = whole - symbol(open_[0]) * factor
                found[open_[0]] = ImpliedSize(index, axis, parts, rest, factor)
                growing = True
    for index, axis, whole, parts in axes:
        name = sizes.fold(whole).name
        if name is None or name in known or name in found or name not in sizes.definitions:
            continue
        if not {*known, *found}.issuperset(whole.symbols()):
            found[name] = ImpliedSize(index, axis, parts, ZERO, ONE)
    return found


def _factor(dim: Dim, name: str) -> Dim | None:
    """The other factor of the only term that has a symbol, if that is no power of it."""
    terms = [term for term in dim.terms if any(each == name for each, _ in term[0])]
    if len(terms) != 1:
        return None
    factor = Dim((terms[0],)) / symbol(name)
    return None if name in factor.symbols() else factor


def axis_symbols(shapes: Iterable[Shape], sizes: Sizes) -> frozenset[str]:
    """Return the symbols that are an axis, or whose part on one rank is an axis."""
    names = (sizes.symbol_and_divisors(dim)[0] for shape in shapes for dim in shape)
    return frozenset(name for name in names if name)


def symbols_of(shapes: Iterable[Shape], sizes: Sizes) -> frozenset[str]:
    """Return the symbols of axes, and the symbols without a number that they imply."""
    shapes = tuple(shapes)
    names = axis_symbols(shapes, sizes)
    return names.union(implied_sizes(shapes, sizes, {*names, *sizes.defaults}))


def closure(
    needed: Iterable[str],
    places: Collection[str],
    sizes: Sizes,
    implied: Mapping[str, ImpliedSize] | None = None,
) -> tuple[list[str], list[str]]:
    """Return all symbols needed, also by definitions, and the computed ones in order.

    A symbol with a place needs no definition. One that is `implied` is computed as a defined one.
    """
    implied = implied or {}
    names: dict[str, None] = {}
    defined: dict[str, None] = {}
    stack = [(name, False) for name in reversed(list(needed))]
    while stack:
        name, ready = stack.pop()
        if ready:
            defined[name] = None
        elif name not in names:
            names[name] = None
            parts = None
            if name not in places and name in implied:
                parts = implied[name].symbols()
            elif name not in places and name in sizes.definitions:
                parts = sizes.definition(name).symbols()
            if parts is not None:
                stack.append((name, True))
                stack.extend((part, False) for part in reversed(parts))
    return list(names), list(defined)


# Which arrays tell a function its sizes: its own, and the parameters of blocks that it calls.


def carried_symbols(graph: Graph) -> frozenset[str]:
    """The symbols that are an axis of an input, a state or a parameter of a graph."""
    return axis_symbols(own_shapes(graph), graph.sizes)


def own_shapes(graph: Graph) -> list[Shape]:
    """The shapes of the inputs, states and parameters of a graph."""
    values = [*graph.inputs, *(state.past for state in graph.states)]
    values += [param.value for param in graph.params]
    return [graph.types[value].shape for value in values]


@dataclass(slots=True)
class SizeSources:
    """The arrays of a program that say how large sizes without a number are.

    Most programs have a number for every size: then nothing is looked for. `_inner` are for each
    graph parameters of the blocks that it calls, `_implied` the symbols that follow, `_idle` the
    shapes of parameters in rows of calls that may be empty.
    """

    is_open: bool
    _inner: dict[str, Mapping[str, Shape]]
    _implied: dict[str, frozenset[str]]
    _idle: dict[str, list[Shape]]

    @classmethod
    def of(cls, program: IRProgram) -> SizeSources:
        """Find the size sources of a program."""
        sources = cls(any(map(_is_open, program.graphs.values())), {}, {}, {})
        if sources.is_open:
            sources._read(program)
        return sources

    def inner(self, graph: Graph) -> Mapping[str, Shape]:
        """Parameters of the blocks that a graph calls, by their paths, in its sizes.

        As few as tell what all of them tell; of a row of calls, those of the first one.
        """
        return self._inner.get(graph.key, {})

    def implied_symbols(self, graph: Graph) -> frozenset[str]:
        """Return the implied symbols without a number that are no axis of the graph's arrays."""
        return self._implied.get(graph.key, frozenset())

    def idle(self, graph: Graph) -> Sequence[Shape]:
        """Return the shapes of parameters that may not exist: a repeat may have no rounds."""
        return self._idle.get(graph.key, ())

    def _read(self, program: IRProgram) -> None:
        calls = [call for graph in program.graphs.values() for call in graph.calls]
        bound = frozenset(name for call in calls for name in call.sizes)
        below: dict[str, dict[str, Shape]] = {}  # of each graph, parameters of its own among them
        for key, graph in program.graphs.items():  # callees come first
            own = {str(p.value.name): graph.types[p.value].shape for p in graph.params}
            called = list(_callee_params(program, graph, below, bound))
            inner = {path: shape for path, shape, runs in called if runs}
            self._idle[key] = [shape for _, shape, runs in called if not runs]
            below[key] = _telling({**own, **inner}, graph.sizes)
            self._inner[key] = {path: shape for path, shape in inner.items() if path in below[key]}
            told = symbols_of([*own_shapes(graph), *self._inner[key].values()], graph.sizes)
            given = {*graph.sizes.defaults, *graph.sizes.definitions}
            self._implied[key] = told - carried_symbols(graph) - given


def _callee_params(
    program: IRProgram,
    graph: Graph,
    below: Mapping[str, Mapping[str, Shape]],
    bound: frozenset[str],
) -> Iterator[tuple[str, Shape, bool]]:
    """Yield the parameters that the blocks called by a graph have, or call, in its sizes.

    Each with whether it is certainly there: a row of calls may be empty.
    """
    for call in graph.named_calls():
        runs = call.count is None or _runs(call.count, graph.sizes, bound)
        callee = program.graphs[call.callee]
        symbols = inside(call, graph, callee, {})
        path = call.path if call.count is None else f"{call.path}.{call.first}"
        for name, shape in below[call.callee].items():
            expanded = (callee.sizes.expand(dim).substitute(symbols) for dim in shape)
            yield join(path, name), tuple(expanded), runs


def _runs(count: Dim, sizes: Sizes, bound: frozenset[str]) -> bool:
    """Whether a row of calls is certainly not empty; sizes that a call has `bound` may be any."""
    numbers = sizes.bind({})
    return (
        bound.isdisjoint(count.symbols())
        and numbers.keys() >= {*count.symbols()}
        and count.evaluate(numbers) > 0
    )


def _telling(shapes: Mapping[str, Shape], sizes: Sizes) -> dict[str, Shape]:
    """Keep each shape that has a symbol which the shapes before it leave open."""
    found: dict[str, Shape] = {}
    open_ = {name for shape in shapes.values() for dim in shape for name in dim.symbols()}
    open_ -= sizes.defaults.keys()
    for path, shape in shapes.items():
        if shape not in found.values() and any(
            not open_.isdisjoint(sizes.expand(dim).symbols()) for dim in shape
        ):
            found[path] = shape
            open_ -= symbols_of(found.values(), sizes)
    return found


def _is_open(graph: Graph) -> bool:
    """Whether a size of a graph, a number of its operators or of its calls has no number."""
    numbered = graph.sizes.defaults
    return any(
        name not in numbered
        for dim in _graph_dims(graph)
        for monomial, _ in dim.terms
        for name, _ in monomial
    )


def _graph_dims(graph: Graph) -> Iterator[Dim]:
    for type_ in graph.types.values():
        yield from type_.shape
    for step in graph.steps:
        if isinstance(step, Apply):
            for scalar in step.attrs.values():
                if isinstance(scalar, Scalar):
                    yield from scalar.dims()
        elif step.count is not None:
            yield step.count
