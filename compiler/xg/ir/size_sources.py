"""Which arrays tell a function its sizes: its own, and the parameters of blocks that it calls."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from xg.diagnostics.lazy_dataclass import dataclass
from xg.ir.dim import Dim
from xg.ir.graph import Apply, Graph, Program
from xg.ir.instances import inside
from xg.ir.known_sizes import axis_symbols, symbols_of
from xg.ir.parameters import join
from xg.ir.scalar import Scalar
from xg.ir.tensor import Shape, Sizes


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
    def of(cls, program: Program) -> SizeSources:
        """Those of a program."""
        sources = cls(any(map(_is_open, program.graphs.values())), {}, {}, {})
        if sources.is_open:
            sources._read(program)
        return sources

    def inner(self, graph: Graph) -> Mapping[str, Shape]:
        """Parameters of the blocks that a graph calls, by their paths, in its sizes.

        As few as tell what all of them tell; of a row of calls, those of the first one.
        """
        return self._inner.get(graph.key, {})

    def implied(self, graph: Graph) -> frozenset[str]:
        """The symbols without a number that no axis of its own arrays is, and that follow."""
        return self._implied.get(graph.key, frozenset())

    def idle(self, graph: Graph) -> Sequence[Shape]:
        """The shapes of parameters that there may be none of: those of rows without a round."""
        return self._idle.get(graph.key, ())

    def _read(self, program: Program) -> None:
        calls = [call for graph in program.graphs.values() for call in graph.calls]
        bound = frozenset(name for call in calls for name in call.sizes)
        below: dict[str, dict[str, Shape]] = {}  # of each graph, parameters of its own among them
        for key, graph in program.graphs.items():  # callees come first
            own = {str(p.value.name): graph.types[p.value].shape for p in graph.params}
            called = list(_called(program, graph, below, bound))
            inner = {path: shape for path, shape, runs in called if runs}
            self._idle[key] = [shape for _, shape, runs in called if not runs]
            below[key] = _telling({**own, **inner}, graph.sizes)
            self._inner[key] = {path: shape for path, shape in inner.items() if path in below[key]}
            told = symbols_of([*own_shapes(graph), *self._inner[key].values()], graph.sizes)
            given = {*graph.sizes.defaults, *graph.sizes.definitions}
            self._implied[key] = told - carried_symbols(graph) - given


def _called(
    program: Program,
    graph: Graph,
    below: Mapping[str, Mapping[str, Shape]],
    bound: frozenset[str],
) -> Iterator[tuple[str, Shape, bool]]:
    """The parameters that the blocks called by a graph have, or call, in its sizes.

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
    """Those of the shapes by which one knows more than by those before."""
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
        for dim in _mentioned(graph)
        for monomial, _ in dim.terms
        for name, _ in monomial
    )


def _mentioned(graph: Graph) -> Iterator[Dim]:
    for type_ in graph.types.values():
        yield from type_.shape
    for step in graph.steps:
        if isinstance(step, Apply):
            for scalar in step.attrs.values():
                if isinstance(scalar, Scalar):
                    yield from scalar.dims()
        elif step.count is not None:
            yield step.count
