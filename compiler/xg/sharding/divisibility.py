"""Whether the ranks of a mesh can share the sizes that they cut, once all have numbers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod
from typing import ClassVar

from xg.diagnostics.diagnostic import Diagnostic, DiagnosticError, Label, Problem, problem_kind
from xg.diagnostics.source import Span
from xg.ir.dim import Dim
from xg.ir.graph import Graph, Program
from xg.ir.instances import instances
from xg.ir.plan import sized
from xg.ir.size_checks import SUGGESTED_AT_MOST, Numbers, listed, numbers_of, value_of
from xg.sharding.apply_plan import placed

RANKS_AT_MOST = 4_096


@problem_kind
class NotDivisible(Problem):
    """A size that the ranks of a mesh axis cannot share equally."""

    code: ClassVar[str] = "XG0404"
    span: Span
    size: str
    number: int
    axes: tuple[tuple[str, int], ...]

    def diagnostic(self) -> Diagnostic:
        """Say both numbers, and which numbers of ranks would do."""
        names = "*".join(name for name, _ in self.axes)
        ranks = prod(size for _, size in self.axes)
        last, size = self.axes[-1]
        rest = ranks // size
        fitting = [n for n in range(1, RANKS_AT_MOST + 1) if self.number % (rest * n) == 0]
        help = f"the ranks of {names} together have to divide {self.number}"
        if fitting:
            help = f"{last} may be {listed(fitting[:SUGGESTED_AT_MOST])}"
        what = self.size if self.size == str(self.number) else f"{self.size} = {self.number}"
        return self.report(
            f"{what} is not divisible by {names} = {ranks}", Label(self.span), help=(help,)
        )


def check_shares(program: Program) -> None:
    """Raise DiagnosticError with every size that mesh axes cut into unequal parts."""
    problems: dict[str, Problem] = {}
    known = {**program.main.sizes.defaults, **program.numbers}
    for problem in _unequal(program, known):
        problems.setdefault(problem.diagnostic().message, problem)
    if problems:
        raise DiagnosticError.of(*problems.values())


def check_parts(program: Program) -> None:
    """Raise DiagnosticError with every size inside that moves cut into unequal parts.

    Where every value lies was found: heads may be cut where only the width was asked for.
    """
    problems: dict[str, Problem] = {}
    known = {**program.main.sizes.defaults, **program.numbers}
    for graph, symbols in instances(program):
        numbers = numbers_of(graph, symbols, known)
        for value, placement in graph.placements.items():
            cuts = {axis: s.axis for axis, s in placement.items() if s.kind == "S"}
            for dim, axes in sized(graph.types[value].shape, cuts):
                for problem in _shared(graph, dim, axes, numbers, program.mesh, value.span):
                    problems.setdefault(problem.diagnostic().message, problem)
    if problems:
        raise DiagnosticError.of(*problems.values())


def _unequal(program: Program, known: Numbers) -> Iterator[NotDivisible]:
    """Sizes that shapes of the file, or the plan, cut into unequal parts."""
    for graph, symbols in instances(program):
        numbers = numbers_of(graph, symbols, known)
        for value, cuts in graph.layouts.items():
            for dim, axes in sized(graph.types[value].shape, cuts):
                yield from _shared(graph, dim, axes, numbers, program.mesh, value.span)
    for found in placed(program):
        numbers = numbers_of(found.graph, found.symbols, known)
        for dim, axes in found.cuts():
            span = next((e.span for e in found.entries if e.over & set(axes)), found.value.span)
            yield from _shared(found.graph, dim, axes, numbers, program.mesh, span)


def _shared(
    graph: Graph, dim: Dim, axes: Sequence[str], numbers: Numbers, mesh: Numbers, span: Span
) -> Iterator[NotDivisible]:
    number = value_of(dim, numbers)
    sizes = tuple((axis, mesh[axis]) for axis in axes if axis in mesh)
    if number is not None and number % prod(size for _, size in sizes):
        yield NotDivisible(span, str(graph.sizes.fold(dim)), number, sizes)
