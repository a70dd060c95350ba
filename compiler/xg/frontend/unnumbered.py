"""Sizes that code will need as numbers, and that nothing tells: no default, and no array."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from xg.diagnostics.diagnostic import Diagnostic
from xg.diagnostics.lazy_dataclass import replace
from xg.ir.dim import Dim, product, symbol
from xg.ir.errors import UnboundSize
from xg.ir.graph import Apply, Graph, Program
from xg.ir.known_sizes import closure, implied_sizes
from xg.ir.scalar import Scalar
from xg.ir.size_sources import SizeSources, carried_symbols, own_shapes
from xg.passes.eliminate_dead import eliminate_dead
from xg.passes.pipelines import SINGLE
from xg.passes.runner import run


def unnumbered(program: Program) -> Iterator[Diagnostic]:
    """A warning for each size of a program that the caller must give.

    A step that no output needs is left out of the code: it neither needs a size nor tells one.
    """
    if not SizeSources.of(program).is_open or not _untold(eliminate_dead(program)):
        return
    derived = run(SINGLE, program).result
    for name in _untold(derived):
        yield replace(UnboundSize(program.main.span, name).diagnostic(), severity="warning")


def _untold(program: Program) -> list[str]:
    """The sizes that code needs and nothing tells; more of them before backward passes are derived.

    Deriving takes longer than all else here, and hardly a program needs it to be content.
    """
    sources = SizeSources.of(program)
    untold: dict[str, list[str]] = {}  # of each block
    for key, graph in program.graphs.items():  # callees come first
        shapes = [*own_shapes(graph), *sources.inner(graph).values()]
        carried, sizes = carried_symbols(graph), graph.sizes
        known = {*carried, *sizes.defaults, *sizes.mesh}
        backward = program.backwards.get(key)
        dims = [*_needed(graph, untold), *(dim for shape in sources.idle(graph) for dim in shape)]
        dims += _needed(backward, untold) if backward else _means(graph)
        needed = (name for dim in dims for name in sizes.computed(dim).symbols())
        names, defined = closure(needed, carried, sizes, implied_sizes(shapes, sizes, known))
        untold[key] = [name for name in names if name not in known and name not in defined]
    return untold[program.entry]


def _needed(graph: Graph, untold: dict[str, list[str]]) -> Iterator[Dim]:
    """The sizes of all results of a pass, and of all numbers that it computes with."""
    for type_ in graph.types.values():
        yield from type_.shape
    for step in graph.steps:
        if isinstance(step, Apply):
            for expr in step.body(graph.types).order():
                yield from (*expr.shape, *_numbers(value for _, value in expr.attrs))
        else:
            yield from [] if step.count is None else [step.count]
            yield from (step.sizes.get(name, symbol(name)) for name in untold[step.callee])


def _means(graph: Graph) -> Iterator[Dim]:
    """The numbers by which gradients of means may divide."""
    for step in graph.steps:
        if isinstance(step, Apply):
            means = (each for each in step.body(graph.types).order() if each.prim == "mean")
            for expr in means:
                yield product(expr.args[0].shape[axis] for axis in expr.axes())


def _numbers(values: Iterable[object]) -> Iterator[Dim]:
    for value in values:
        if isinstance(value, Scalar):
            yield from value.dims()
        elif isinstance(value, Dim):
            yield value
