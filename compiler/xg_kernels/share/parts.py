"""The parts of an operator's body that read no operand, and the operator without them."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from itertools import count
from typing import Final

from xg.diagnostics.lazy_dataclass import replace
from xg.ir.body import LEAVES, VIEWS, Body, topological
from xg.ir.graph import Apply, Value
from xg.ir.prim import RANDOM, Expr
from xg.ir.tensor import TensorType

FREE: Final = (
    LEAVES | VIEWS | {"iota", "as_float", "stop"}
)  # what takes no time, or is no computation


def known_parts(
    body: Body,
    known: Container[int] = (),
    fits: Callable[[Expr], bool] = lambda _: True,
) -> tuple[Expr, ...]:
    """The largest parts that compute floats from sizes alone; of an operator with caches none.

    They are beside something that is computed from operands: an operator without any is whole.
    With operands that are `known`, by their `id`, those that compute from such ones and that fit.
    """
    order = body.order()
    reads: dict[int, bool] = {}
    uses: dict[int, bool] = {}
    for expr in order:
        below, given = [id(arg) for arg in expr.args], id(expr) in known
        free = expr.prim in RANDOM | {"operand"} and not given
        reads[id(expr)] = free or any(reads[arg] for arg in below) or not fits(expr)
        uses[id(expr)] = given or any(uses[arg] for arg in below)
    if body.caches:
        return ()
    inner = [arg for expr in order if reads[id(expr)] for arg in expr.args]
    wanted = [e for e in inner if not reads[id(e)] and e.kind == "float" and works(e)]
    return tuple({id(e): e for e in wanted if uses[id(e)] or (not known and _counts(e))}.values())


def _counts(expr: Expr) -> bool:
    """Whether it is an array: one is made by counting, and what has none is a number of Python."""
    return any(each.prim == "iota" for each in topological([expr]))


def works(expr: Expr) -> bool:
    """Whether an expression takes time."""
    return any(each.prim not in FREE for each in topological([expr]))


def reading(
    step: Apply, types: Mapping[Value, TensorType], parts: Sequence[Expr], values: Sequence[Value]
) -> Apply:
    """The step that is given these parts of its body as values."""
    body = step.body(types)
    names = [str(expr.name) for expr in body.operands]
    for value in values:
        names.append(fresh(str(value.name), names))
    op = step.op.computing(Body((*body.operands, *parts), body.outputs), names)
    attrs = {key: value for key, value in step.attrs.items() if key != "absent"}
    return replace(step, op=op, inputs=(*step.inputs, *values), attrs=attrs)


def fresh(wanted: str, taken: Container[str]) -> str:
    """A name that is not taken: the wanted one, or that with a number."""
    names = (wanted if n == 1 else f"{wanted}_{n}" for n in count(1))
    return next(name for name in names if name not in taken)
