"""Printed arrays checked against the types of their tensors, once sizes have numbers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from xg.diagnostics.diagnostic import Problem
from xg.diagnostics.lazy_dataclass import dataclass, field
from xg.diagnostics.source import Span
from xg.frontend.examples.errors import BadTolerance, NoLastDigit, NotAnIndex, NotGiven, WrongShape
from xg.frontend.examples.numbers import Numbers, number
from xg.ir.dim import Dim
from xg.ir.graph import Program
from xg.ir.loss import ignored
from xg.ir.parameters import param_specs
from xg.ir.tensor import TensorType
from xg.passes.resolve.errors import Refused
from xg.syntax import ast


@dataclass(frozen=True, slots=True)
class Taken:
    """Something that a block takes: `written` is its type as people read it.

    `optional` is a parameter that starts as ones or zeros; `ignored` the integer beyond its range
    that a loss leaves out.
    """

    name: str
    type: TensorType
    written: str
    optional: bool = False
    ignored: int | None = None


def taken(program: Program) -> Iterator[Taken]:
    """The inputs and parameters of a program, in file order."""
    main = program.main
    for value in main.inputs:
        type_ = main.types[value]
        written = str(TensorType(main.shape(value), type_.range))
        yield Taken(str(value.name), type_, written, ignored=ignored(program, value))
    for path, param, graph, symbols in param_specs(program):
        type_ = graph.sizes.expand_type(param.type).substitute(symbols)
        yield Taken(path, type_, str(param.type), optional=isinstance(param.start, str))


@dataclass(frozen=True, slots=True)
class Fit:
    """The numbers of sizes, and which array brought each."""

    sizes: Mapping[str, int]
    brought: dict[str, Span] = field(default_factory=dict[str, Span])

    def givens(
        self, program: Program, givens: Mapping[str, Numbers], missing: Span
    ) -> Iterator[Problem]:
        """The errors in the given arrays of an example; `missing` is where something is missing."""
        for each in taken(program):
            numbers = givens.get(each.name)
            if numbers is None and not each.optional:
                yield NotGiven(missing, each.name, each.written)
            elif numbers is not None:
                yield from self.problems(each, numbers)
                for dim in each.type.shape:
                    self.brought.setdefault(dim.name or "", numbers.span)

    def problems(self, of: Taken, found: Numbers, *, zero: bool = False) -> Iterator[Problem]:
        """The errors in a printed array, which is a gradient of `zero`."""
        axes = of.type.shape
        is_known = all(name in self.sizes for dim in axes for name in dim.symbols())
        expected_shape = tuple(dim.evaluate(self.sizes) for dim in axes) if is_known else None
        if len(found.shape) != len(axes) or expected_shape not in (None, found.shape):
            because = self._because(axes, found.shape)
            yield WrongShape(
                found.span,
                of.name,
                of.written,
                expected_shape,
                found.shape,
                because,
                zero=zero and not found.shape,
            )
        elif of.type.range is not None:
            below = of.type.range.evaluate(self.sizes)
            for item in found.items:
                inside = item.value == int(item.value) and 0 <= item.value < below
                if not inside and item.value != of.ignored:
                    yield NotAnIndex(item.span, of.name, below - 1)

    def _because(self, axes: tuple[Dim, ...], found: tuple[int, ...]) -> Span | None:
        """The array that brought the first size which is another one here."""
        if len(axes) == len(found):
            for dim, length in zip(axes, found, strict=True):
                if dim.name in self.brought and self.sizes[dim.name] != length:
                    return self.brought[dim.name]
        return None


def allowed(printed: Numbers, tolerance: ast.Expr | None) -> tuple[float, ...]:
    """How far each number may be off: as is said, or half a unit of its last digit."""
    if tolerance is not None:
        if isinstance(tolerance, ast.Array) or number(tolerance).value <= 0:
            raise Refused(BadTolerance(tolerance.span))
        return (number(tolerance).value,) * len(printed.items)
    for item in printed.items:
        if item.half is None:
            raise Refused(NoLastDigit(item.span))
    return tuple(item.half for item in printed.items if item.half is not None)
