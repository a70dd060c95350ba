"""Whether the ranks of a mesh can share the sizes that they cut, once all have numbers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from math import prod
from typing import Final

from xg.diagnostics.diagnostic import DiagnosticError
from xg.diagnostics.lazy_dataclass import dataclass, replace
from xg.diagnostics.source import Span
from xg.ir.content import Recent
from xg.ir.dim import Dim
from xg.ir.graph import Graph, IRProgram, Value
from xg.ir.placement import axis_of, is_zigzag, ordered_axis
from xg.ir.plan import zigzag_axes
from xg.ir.size_checks import Numbers, axes_of, numbers_of, value_of
from xg.ir.walk import instances
from xg.sharding.apply_plan import PlacedValue, placed_values
from xg.sharding.errors import NotDivisible
from xg.sharding.placing import sized

TRIED_AT_MOST: Final = 1_024  # numbers of a size, for a help

# A graph by its key, or by what all graphs with the same values have, and the numbers of its sizes.
PartsKey = tuple[str | int, frozenset[tuple[str, int]]]


@dataclass(frozen=True, slots=True)
class _Uneven:
    """A size of a graph that ranks cannot share, and the problem that says so."""

    graph: Graph
    symbols: Mapping[str, Dim]
    dim: Dim
    problem: NotDivisible

    def number(self, known: Numbers) -> int | None:
        """The size with other numbers."""
        return value_of(self.dim, numbers_of(self.graph, self.symbols, known))


def check_shares(
    program: IRProgram, found: Iterable[PlacedValue] | None = None, *, advises: bool = True
) -> None:
    """Raise DiagnosticError with every size that mesh axes cut into unequal parts.

    `found` are the values to check, by default all that the plan reaches. Where it `advises`, it
    looks for other numbers of the sizes.
    """
    all_numbers = program.all_numbers
    reached = tuple(placed_values(program) if found is None else found)
    each = (*_by_shape(program, all_numbers), *_by_plan(program, reached, all_numbers))
    _refuse(program, each, reached, advises=advises)


def _refuse(
    program: IRProgram,
    found: Iterable[_Uneven],
    reached: Sequence[PlacedValue] = (),
    *,
    advises: bool,
) -> None:
    """Raise DiagnosticError with the problems that there are, each once."""
    uneven: dict[tuple[str, int, object], _Uneven] = {}
    for each in found:
        problem = each.problem
        uneven.setdefault((problem.size, problem.number, problem.axes), each)
    if uneven:
        apart = list(uneven.values())
        problems = [each.problem for each in apart]
        if advises:
            cuts = cuts_of(program, reached)
            problems = [
                replace(
                    each.problem,
                    near=_near(program, each, apart),
                    others=tuple(_others(program, each.problem, cuts)),
                )
                for each in apart
            ]
        raise DiagnosticError.of(*problems)


def _others(
    program: IRProgram, problem: NotDivisible, cuts: Iterable[tuple[Dim, tuple[str, ...]]]
) -> Iterator[tuple[int, int]]:
    """The sizes that the last mesh axis of a problem cuts, and their ranks on other axes."""
    last, known = problem.axes[-1][0], program.all_numbers
    for dim, over in cuts:
        axes = [axis_of(each) for each in over]
        number = value_of(dim, known) if last in axes else None
        if number is not None:
            beside = (program.mesh[axis] for axis in axes if axis != last and axis in program.mesh)
            yield number, prod(beside) * (2 if any(map(is_zigzag, over)) else 1)


def _near(
    program: IRProgram, one: _Uneven, all_: Sequence[_Uneven]
) -> tuple[str, tuple[int, ...]] | None:
    """A dim, and the next numbers of it with which ranks share all that depends on it."""
    known = program.all_numbers
    graphs = [(*each, list(axes_of(each[0], numbers=True))) for each in instances(program)]

    def fits(name: str, number: int) -> bool:
        tried = {**known, name: number}
        sizes = [(each.number(tried), each) for each in all_]
        if any(n is None or (n != e.problem.number and n % e.problem.ranks) for n, e in sizes):
            return False
        return not (one.number(tried) or 1) % one.problem.ranks and all(
            value_of(axis, numbers)
            for graph, symbols, axes in graphs
            for numbers in [numbers_of(graph, symbols, tried)]
            for axis in axes
            if all(symbol in numbers for symbol in axis.symbols())
        )

    for name in one.dim.substitute(one.symbols).symbols():
        if name in known and name not in program.mesh:
            at = known[name]
            below, above = range(at - 1, 0, -1), range(at + 1, at * one.problem.ranks + 1)
            ways = (islice(each, TRIED_AT_MOST) for each in (below, above))
            next_ = [next((n for n in way if fits(name, n)), None) for way in ways]
            if any(next_):
                return name, tuple(number for number in next_ if number)
    return None


def check_parts(
    program: IRProgram,
    cores: Mapping[str, int],
    fine: Recent[PartsKey, bool],
    starts: Sequence[tuple[str, Mapping[str, Dim]]] | None = None,
    *,
    advises: bool = True,
) -> None:
    """Raise DiagnosticError with every inner size that moves cut into unequal parts.

    It looks at the entries and all that they call, or begins at the graphs of `starts`.

    Placements are inferred: heads may be sharded where the plan names only the width. Graphs in
    `fine` (by their `cores`, under these sizes) were checked before; those that are fine now are
    added.
    """
    uneven: list[_Uneven] = []
    all_numbers = program.all_numbers
    new: set[PartsKey] = set()
    chunks = [(ordered_axis(axis, (axis,)), 2) for axis in zigzag_axes(program.plan)]
    for graph, symbols in instances(program, starts):
        numbers = numbers_of(graph, symbols, all_numbers)
        key = cores.get(graph.key, graph.key), frozenset((*numbers.items(), *chunks))
        if key in new or (graph.key in cores and fine.get(key)):
            continue
        new.add(key)
        sharded: dict[tuple[Dim, tuple[str, ...]], Value] = {}  # each once, at its first value
        for value, placement in graph.placements.items():
            cuts = {axis: s.axis for axis, s in placement.items() if s.kind == "S"}
            for cut in sized(graph.types[value].shape, cuts) if cuts else ():
                sharded.setdefault(cut, value)
        for (dim, axes), value in sharded.items():
            uneven += _shared(graph, symbols, dim, axes, numbers, program, value.span)
    _refuse(program, uneven, advises=advises)
    for key in new:
        fine.put(key, True)


def cuts_of(
    program: IRProgram, found: Iterable[PlacedValue]
) -> tuple[tuple[Dim, tuple[str, ...]], ...]:
    """Every size that mesh axes cut, in the sizes of the entry: those that the checks ask for.

    A mesh axis is named with the order of its ranks, which in zigzag have two chunks each.
    A search evaluates them for thousands of meshes.
    """
    cuts: dict[tuple[Dim, tuple[str, ...]], None] = {}
    for graph, symbols in instances(program):
        layouts = list(graph.layouts.items())
        for value, placement in graph.placements.items():
            layouts.append(
                (value, {axis: s.axis for axis, s in placement.items() if s.kind == "S"})
            )
        for value, cut in layouts:
            for dim, axes in sized(graph.types[value].shape, cut):
                cuts[dim.substitute(symbols), axes] = None
    for each in found:
        for dim, axes in each.planned.cuts:
            cuts[dim.substitute(each.symbols), tuple(axes)] = None
    zigzag = zigzag_axes(program.plan)
    return tuple((dim, tuple(ordered_axis(each, zigzag) for each in axes)) for dim, axes in cuts)


def _by_shape(program: IRProgram, known: Numbers) -> Iterator[_Uneven]:
    """Sizes that shapes of the file cut into unequal parts."""
    if not any(graph.layouts for graph in program.graphs.values()):
        return
    for graph, symbols in instances(program):
        numbers = numbers_of(graph, symbols, known)
        for value, cuts in graph.layouts.items():
            for dim, axes in sized(graph.types[value].shape, cuts):
                yield from _shared(graph, symbols, dim, axes, numbers, program, value.span)


def _by_plan(
    program: IRProgram, reached: Iterable[PlacedValue], known: Numbers
) -> Iterator[_Uneven]:
    """Sizes that the plan cuts into unequal parts."""
    for value in reached:
        said = value.planned
        numbers = numbers_of(said.graph, value.symbols, known)
        for dim, axes in said.cuts:
            span = next((e.span for e in said.entries if e.over & set(axes)), said.value.span)
            yield from _shared(said.graph, value.symbols, dim, axes, numbers, program, span)


def _shared(
    graph: Graph,
    symbols: Mapping[str, Dim],
    dim: Dim,
    axes: Sequence[str],
    numbers: Numbers,
    program: IRProgram,
    span: Span,
) -> Iterator[_Uneven]:
    number = value_of(dim, numbers)
    sizes = tuple((axis, program.mesh[axis]) for axis in axes if axis in program.mesh)
    if zigzag_axes(program.plan) & {*axes}:
        sizes = (("2", 2), *sizes)  # chunks of a rank
    if number is not None and number % prod(size for _, size in sizes):
        problem = NotDivisible(span, str(graph.sizes.fold(dim)), number, sizes)
        yield _Uneven(graph, symbols, dim, problem)
