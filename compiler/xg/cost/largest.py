"""The largest array that one step makes: what a memory that holds all that is saved must fit too.

Inside an operator arrays come and go that no table of saved bytes knows: a product that is summed
at once may be a thousand times as large as what goes in and what comes out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import prod
from typing import Final, Literal

from xg.cost.cost import BYTES
from xg.diagnostics.lazy_dataclass import dataclass
from xg.ir.body import LEAVES, VIEWS
from xg.ir.dim import Dim, product
from xg.ir.graph import Apply, Program, Value
from xg.ir.instances import instances
from xg.ir.prim import Expr
from xg.ir.tensor import TensorType

NO_ARRAYS: Final = LEAVES | VIEWS | {"stop"}
UNKNOWN: Final = 1_000  # the value of a size without a number, to compare by


@dataclass(frozen=True, slots=True)
class Largest:
    """One array: its bytes in the sizes of the entry, and the step that makes it.

    `inner` says that it is neither a result of the step nor one of its operands.
    """

    size: Dim
    block: str
    name: str
    line: int
    direction: Literal["forward", "backward"]
    inner: bool


def largest(program: Program, dtype: str) -> Largest | None:
    """The largest array of a program's steps; None if they make none."""
    numbers = program.main.sizes.bind(program.numbers)
    first: dict[Dim, Largest] = {}
    for array in _arrays(program, BYTES[dtype]):
        first.setdefault(array.size, array)
    return max(first.values(), key=lambda each: _compared(each.size, numbers), default=None)


def _arrays(program: Program, width: int) -> Iterator[Largest]:
    for graph, symbols in instances(program):
        steps = [(step, graph.types, False) for step in graph.steps]
        reverse = program.backwards.get(graph.key)
        if reverse:
            types = {**graph.types, **reverse.types}
            steps += [(step, types, True) for step in reverse.steps]
        for step, types, backward in steps:
            if isinstance(step, Apply):
                origin = (step.origin or step) if backward else step
                label = origin.outputs[0].name
                name = f"{origin.op.glyph} : {label}" if label else origin.op.glyph
                for expr, inner in _made(step, types):
                    size = product(expr.shape) * width_of(expr, width)
                    yield Largest(
                        graph.sizes.expand(size).substitute(symbols),
                        graph.block,
                        name,
                        origin.span.line,
                        "backward" if backward else "forward",
                        inner,
                    )


def _made(step: Apply, types: Mapping[Value, TensorType]) -> Iterator[tuple[Expr, bool]]:
    """Every array that a step makes, and whether it stays inside."""
    body = step.body(types)
    results = {id(expr) for expr in body.outputs}
    for expr in body.order():
        if expr.prim not in NO_ARRAYS:
            yield expr, id(expr) not in results


def width_of(expr: Expr, floats: int) -> int:
    """The bytes of one element, if those of a float are so many."""
    return floats if expr.kind == "float" else BYTES[expr.kind]


def _compared(size: Dim, numbers: Mapping[str, int]) -> float:
    sizes = {name: numbers.get(name, UNKNOWN) for name in size.symbols()}
    return sum(
        prod((float(sizes[name]) ** exponent for name, exponent in monomial), start=float(times))
        for monomial, times in size.terms
    )
