"""Constraints on the sizes of a program: everything that numbers for them must respect."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from math import prod

from xg.cost.cost import cost
from xg.diagnostics.lazy_dataclass import dataclass, replace
from xg.ir.dim import Dim, number, product, symbol
from xg.ir.graph import Apply, IRProgram
from xg.ir.plan import zigzag_axes
from xg.ir.prim import Expr
from xg.ir.scalar import Scalar, size
from xg.ir.size_checks import axes_of, facts_of
from xg.ir.walk import instances
from xg.sharding.apply_plan import placed_values
from xg.sharding.placing import sized


@dataclass(frozen=True, slots=True)
class SizeFacts:
    """Facts in the symbols of the entry block, each once.

    `dims` are lengths of axes, `shapes` the different lengths of each tensor, `counts` how often
    calls repeat, `bounds` pairs of which the first is at most the second, `means` the axes that a
    mean is taken over, `rounds` those that a loop with states goes over. `numbers` are what
    operators and calls take besides tensors. `scalars` are to be checked, `operations` what one
    forward pass takes.
    """

    dims: tuple[Dim, ...]
    shapes: tuple[tuple[Dim, ...], ...]
    counts: tuple[Dim, ...]
    bounds: tuple[tuple[Dim, Dim], ...]
    means: tuple[Dim, ...]
    rounds: tuple[Dim, ...]
    numbers: tuple[Scalar, ...]
    scalars: Dim
    operations: Dim

    @property
    def wholes(self) -> tuple[Dim, ...]:
        """The sizes that must be whole: also a number that is half a size."""
        return (*self.dims, *self.counts, *(dim for each in self.numbers for dim in each.dims()))

    def written(self, sizes: Mapping[str, int]) -> SizeFacts:
        """These with the file's `sizes` for symbols that are no part of an axis or repetition."""
        lengths = {name for dim in (*self.dims, *self.counts) for name in dim.symbols()}
        kept = {name: number(size) for name, size in sizes.items() if name not in lengths}
        return replace(self, numbers=tuple(each.substitute(kept) for each in self.numbers))


def size_facts(program: IRProgram) -> SizeFacts:
    """Everything that a differentiated program says of its sizes."""
    total = cost(program).total
    main = program.main
    floats = [main.types[value].shape for value in main.inputs if main.types[value].is_float]
    return SizeFacts(
        dims=tuple(dict.fromkeys(_dims(program))),
        shapes=tuple(dict.fromkeys(_shapes(program))),
        counts=tuple(dict.fromkeys(_counts(program))),
        bounds=tuple(dict.fromkeys(bounds(program))),
        means=tuple(dict.fromkeys(_means(program))),
        rounds=tuple(dict.fromkeys(_rounds(program))),
        numbers=tuple(dict.fromkeys(_numbers(program))),
        scalars=sum(map(product, floats), total.parameters),
        operations=total.forward,
    )


def _dims(program: IRProgram) -> Iterator[Dim]:
    for graph, symbols in instances(program):
        yield from (dim.substitute(symbols) for dim in axes_of(graph))
    if program.is_parallel:
        yield from shard_sizes(program)


def shard_sizes(program: IRProgram) -> Iterator[Dim]:
    """The size of a rank's share of each axis that shapes or the plan shard, or of its chunks."""
    cut = [
        (placed.symbols, whole, axes)
        for placed in placed_values(program)
        for whole, axes in placed.planned.cuts
    ]
    for graph, symbols in instances(program):
        for value, cuts in graph.layouts.items():
            shares = sized(graph.types[value].shape, cuts)
            cut += [(symbols, whole, axes) for whole, axes in shares]
    for symbols, whole, axes in cut:
        ranks = prod(program.mesh[axis] for axis in axes if axis in program.mesh)
        chunks = 2 if zigzag_axes(program.plan) & {*axes} else 1
        yield whole.substitute(symbols) / number(ranks * chunks)


def _shapes(program: IRProgram) -> Iterator[tuple[Dim, ...]]:
    """The different sizes of each tensor's axes."""
    for graph, symbols in instances(program):
        for type_ in graph.types.values():
            dims = dict.fromkeys(dim.substitute(symbols) for dim in type_.shape)
            yield tuple(dim for dim in dims if dim.constant is None)


def _counts(program: IRProgram) -> Iterator[Dim]:
    for graph, symbols in instances(program):
        yield from (
            call.count.substitute(symbols) for call in graph.calls if call.count is not None
        )


def _rounds(program: IRProgram) -> Iterator[Dim]:
    """The axes of loops that hand something from round to round."""
    for graph, symbols in instances(program):
        loops = (call.loop for call in graph.calls if call.loop)
        yield from (loop.length.substitute(symbols) for loop in loops if loop.states)


def _numbers(program: IRProgram) -> Iterator[Scalar]:
    """The numbers in the attributes of operators, and the sizes that calls give."""
    for graph, symbols in instances(program):
        for step in graph.steps:
            given = step.attrs if isinstance(step, Apply) else step.sizes
            for each in given.values():
                if isinstance(each, Dim | Scalar):
                    scalar = size(each) if isinstance(each, Dim) else each
                    known = {name: graph.sizes.expand(symbol(name)) for name in scalar.symbols()}
                    yield scalar.substitute(known).substitute(symbols)


def bounds(program: IRProgram) -> Iterator[tuple[Dim, Dim]]:
    """Pairs of sizes of which the first must not be larger, as S and S_max."""
    for graph, symbols in instances(program):
        for _, fact in facts_of(graph):
            yield fact.smaller.substitute(symbols), fact.larger.substitute(symbols)


def divisor_of(name: str, wholes: Iterable[Dim], candidates: Iterable[int]) -> int | None:
    """The first candidate that divides what a symbol alone divides, as N_H in 6/N_H; else None."""
    parts = [
        (coefficient.numerator, -monomial[0][1])
        for dim in wholes
        for monomial, coefficient in dim.terms
        if [each for each, _ in monomial] == [name] and monomial[0][1] < 0
    ]
    fitting = (n for n in candidates if all(whole % n**power == 0 for whole, power in parts))
    return next(fitting, None) if parts else None


def _means(program: IRProgram) -> Iterator[Dim]:
    """The axes that a mean is taken over."""
    for graph, symbols in instances(program):
        for step in graph.steps:
            if isinstance(step, Apply):
                body = step.body(graph.types)
                means = (expr for expr in body.order() if expr.prim == "mean")
                yield from (_reduced(expr).substitute(symbols) for expr in means)


def _reduced(expr: Expr) -> Dim:
    shape = expr.args[0].shape
    return product(shape[axis] for axis in expr.axes())
