"""Whether the ranks of a mesh can share the sizes that they cut, once all have numbers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import prod

from xg.diagnostics.diagnostic import DiagnosticError, Problem
from xg.diagnostics.source import Span
from xg.ir.dim import Dim
from xg.ir.graph import Graph, Program, Value
from xg.ir.instances import instances
from xg.ir.recent import Recent
from xg.ir.size_checks import Numbers, numbers_of, value_of
from xg.sharding.apply_plan import PlacedValue, placed_values
from xg.sharding.errors import NotDivisible
from xg.sharding.placing import sized

# A graph by its key, or by what all graphs with the same values have, and the numbers of its sizes.
PartsKey = tuple[str | int, frozenset[tuple[str, int]]]


def check_shares(program: Program, found: Iterable[PlacedValue] | None = None) -> None:
    """Raise DiagnosticError with every size that mesh axes cut into unequal parts.

    `found` are the values to check, by default all that the plan reaches.
    """
    problems: dict[str, Problem] = {}
    all_numbers = program.all_numbers
    reached = placed_values(program) if found is None else found
    for problem in (*_by_shape(program, all_numbers), *_by_plan(program, reached, all_numbers)):
        problems.setdefault(problem.diagnostic().message, problem)
    if problems:
        raise DiagnosticError.of(*problems.values())


def check_parts(program: Program, cores: Mapping[str, int], fine: Recent[PartsKey, bool]) -> None:
    """Raise DiagnosticError with every inner size that moves cut into unequal parts.

    Placements are inferred: heads may be sharded where the plan names only the width. Graphs in
    `fine` (by their `cores`, under these sizes) were checked before; those that are fine now are
    added.
    """
    problems: dict[str, Problem] = {}
    all_numbers = program.all_numbers
    new: set[PartsKey] = set()
    for graph, symbols in instances(program):
        numbers = numbers_of(graph, symbols, all_numbers)
        key = cores.get(graph.key, graph.key), frozenset(numbers.items())
        if key in new or (graph.key in cores and fine.get(key)):
            continue
        new.add(key)
        sharded: dict[tuple[Dim, tuple[str, ...]], Value] = {}  # each once, at its first value
        for value, placement in graph.placements.items():
            cuts = {axis: s.axis for axis, s in placement.items() if s.kind == "S"}
            for cut in sized(graph.types[value].shape, cuts):
                sharded.setdefault(cut, value)
        for (dim, axes), value in sharded.items():
            for problem in _shared(graph, dim, axes, numbers, program.mesh, value.span):
                problems.setdefault(problem.diagnostic().message, problem)
    if problems:
        raise DiagnosticError.of(*problems.values())
    for key in new:
        fine.put(key, True)


def _by_shape(program: Program, known: Numbers) -> Iterator[NotDivisible]:
    """Sizes that shapes of the file cut into unequal parts."""
    if not any(graph.layouts for graph in program.graphs.values()):
        return
    for graph, symbols in instances(program):
        numbers = numbers_of(graph, symbols, known)
        for value, cuts in graph.layouts.items():
            for dim, axes in sized(graph.types[value].shape, cuts):
                yield from _shared(graph, dim, axes, numbers, program.mesh, value.span)


def _by_plan(
    program: Program, reached: Iterable[PlacedValue], known: Numbers
) -> Iterator[NotDivisible]:
    """Sizes that the plan cuts into unequal parts."""
    for value in reached:
        said = value.planned
        numbers = numbers_of(said.graph, value.symbols, known)
        for dim, axes in said.cuts:
            span = next((e.span for e in said.entries if e.over & set(axes)), said.value.span)
            yield from _shared(said.graph, dim, axes, numbers, program.mesh, span)


def _shared(
    graph: Graph, dim: Dim, axes: Sequence[str], numbers: Numbers, mesh: Numbers, span: Span
) -> Iterator[NotDivisible]:
    number = value_of(dim, numbers)
    sizes = tuple((axis, mesh[axis]) for axis in axes if axis in mesh)
    if number is not None and number % prod(size for _, size in sizes):
        yield NotDivisible(span, str(graph.sizes.fold(dim)), number, sizes)
