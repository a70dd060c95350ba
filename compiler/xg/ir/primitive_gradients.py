"""The derivative of every primitive, and the reverse sweep that makes adjoints from them.

A rule takes the cotangent of a primitive's result and gives one cotangent per argument, None where
no gradient flows. Rules are written in primitives, so a derived adjoint is a body like any other.
Where a primitive chooses among its arguments, the sweep puts a gate in the way (`xg.ir.cotangent`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from typing import Final

from xg.diagnostics.lazy_dataclass import replace
from xg.ir.body import Body, topological
from xg.ir.cotangent import Cotangent, Gate
from xg.ir.dim import ONE, Dim, product
from xg.ir.functions import FUNCTIONS, STEPS, UNARY
from xg.ir.prim import (
    ARITHMETIC,
    RANDOM,
    Expr,
    Windows,
    batch_of,
    broadcast,
    contract,
    cumsum,
    cut,
    dropout_apply,
    equal,
    gather,
    overlap,
    pad,
    pick,
    place,
    reduce_sum,
    reshape,
    scatter_add,
    transpose,
    where,
    window,
)
from xg.ir.scalar import Scalar, as_scalar

Cotangents = tuple[Expr | None, ...]
Rule = Callable[[Expr, Expr], Cotangents]

# No gradient goes through these.
STOPPING: Final = frozenset({"as_float", "stop", "top", "earlier", *RANDOM}) | STEPS
UNIT: Final = 2.0**-10  # in which equal maxima are counted


def pullback(
    outputs: Sequence[Expr], cotangents: Sequence[Expr], inputs: Sequence[Expr]
) -> Cotangents:
    """Pull cotangents of the outputs back to `inputs`; None for an input without influence."""
    order = list(topological(outputs))
    totals: dict[int, Cotangent] = {}
    for output, cotangent in zip(outputs, cotangents, strict=True):
        _accumulate(totals, output, Cotangent(cotangent))
    input_ids = {id(expr) for expr in inputs}
    reached = _reaches(order, input_ids)
    for expr in reversed(order):
        total = totals.get(id(expr))
        if total is None or not expr.args or id(expr) not in reached:
            continue
        for arg, cotangent in zip(expr.args, _pull_back(expr, total), strict=True):
            if cotangent is not None and id(arg) in reached:
                _accumulate(totals, arg, cotangent.sum_to_shape(arg.shape))
    return tuple(totals[id(e)].closed if id(e) in totals else None for e in inputs)


def is_constant(body: Body, varying: Set[str]) -> bool:
    """Whether no gradient goes from a result of a body to an operand that is varying."""
    varies = {id(expr) for expr in body.operands if expr.name in varying and expr.kind == "float"}
    for expr in body.order():
        if expr.kind == "float" and expr.prim not in STOPPING:
            varies.update([id(expr)] if any(id(arg) in varies for arg in expr.args) else ())
    return all(id(output) not in varies for output in body.outputs)


def _pull_back(y: Expr, d: Cotangent) -> Sequence[Cotangent | None]:
    """Return the cotangents of a primitive's arguments, under the gates of its result."""
    if y.prim in CHOOSING:
        return CHOOSING[y.prim](y, d)
    if y.prim == "broadcast":
        return [d]  # summed where it arrives
    if y.prim in SIGNED or y.prim in SLOPED:
        parts = RULES[y.prim](y, d.value)
        if y.prim in SIGNED:
            return [part and replace(d, value=part) for part in parts]
        return [part and d.with_multiple(part) for part in parts]
    closed = d.closed
    parts = RULES[y.prim](y, closed)
    if y.prim not in MOVING or not d.gates:
        return [part and Cotangent(part) for part in parts]
    return [
        part and d.moved(part, y.shape, lambda c, i=i: _move_condition(y, c, i))
        for i, part in enumerate(parts)
    ]


def _move_condition(y: Expr, condition: Expr, i: int) -> Expr:
    """Turn a condition on a moving primitive's result into one on its argument `i`."""
    moved = MOVING[y.prim](y, condition)[i]
    assert moved
    return moved


def _reaches(order: Sequence[Expr], wanted: set[int]) -> set[int]:
    reached = set(wanted)
    for expr in order:
        if any(id(arg) in reached for arg in expr.args):
            reached.add(id(expr))
    return reached


def _accumulate(totals: dict[int, Cotangent], expr: Expr, cotangent: Cotangent) -> None:
    before = totals.get(id(expr))
    totals[id(expr)] = cotangent if before is None else before.plus(cotangent)


def _div(y: Expr, d: Expr) -> Cotangents:
    a, b = y.args
    return d / b, -(d * a / b**2)


def _pow(y: Expr, d: Expr) -> Cotangents:
    exponent = y.typed_attr("exponent", Scalar)
    slope = exponent - 1
    if exponent == as_scalar(0.0):  # x^0 is 1 everywhere, also at 0, where x^-1 is infinite
        return (d * 0.0,)
    x = y.args[0]
    if exponent.constant is None and not exponent.is_positive:  # sizes may make it 0
        x = where(equal(exponent, 0.0), 1.0, x)
    base = x if slope == as_scalar(1.0) else x**slope
    return (d * exponent * base,)


def _larger(y: Expr, d: Cotangent) -> Sequence[Cotangent | None]:
    # As torch.maximum: two equal arguments take half each, so their order does not matter. The
    # slope of |x| = max(x, -x) at 0 is then 0.
    a, b = y.args
    half = d.with_multiple(where(equal(a, b), 0.5 * d.value, d.value))
    below, above = (b > a, a > b) if y.prim == "maximum" else (a > b, b > a)
    return half.through(Gate(below, holds=False)), half.through(Gate(above, holds=False))


def _where(y: Expr, d: Cotangent) -> Sequence[Cotangent | None]:
    condition = y.args[0]
    return None, d.through(Gate(condition)), d.through(Gate(condition, holds=False))


def _spread(y: Expr, d: Expr) -> Expr:
    """The cotangent of a reduction under the shape of its argument, axes of size 1 kept."""
    x = y.args[0]
    gone = {axis % x.rank for axis in y.axes()}
    dims = tuple(ONE if i in gone else dim for i, dim in enumerate(x.shape))
    return broadcast(reshape(d, dims), x.shape)


def _mean(y: Expr, d: Expr) -> Cotangents:
    x = y.args[0]
    return (_spread(y, d) / product(x.shape[axis] for axis in y.axes()),)


def _largest(y: Expr, d: Cotangent) -> Sequence[Cotangent | None]:
    # As torch.amax: equal maxima share the gradient, so that their order does not matter. A float16
    # holds no number above 65504, so the count is one of 1024ths: scaling by a power of 2 is exact.
    x = y.args[0]
    hit = x >= _spread(y, y)
    count = reduce_sum(where(hit, UNIT, 0.0), y.axes())
    return (Cotangent(_spread(y, d.closed) * (UNIT / count), (Gate(hit),)),)


def _contract(y: Expr, d: Expr) -> Cotangents:
    inputs, output = y.typed_attr("spec", str).split("->")
    letters_a, letters_b = inputs.split(",")
    a, b = y.args
    return (
        contract(d, b, f"{output},{letters_b}->{letters_a}"),
        contract(a, d, f"{letters_a},{output}->{letters_b}"),
    )


def _transpose(y: Expr, d: Expr) -> Cotangents:
    order = y.axes("order")
    inverse = sorted(range(len(order)), key=lambda axis: order[axis])
    return (transpose(d, inverse),)


def _concat(y: Expr, d: Expr) -> Cotangents:
    axis = y.typed_attr("axis", int)
    parts: list[Expr] = []
    start = ONE * 0
    for arg in y.args:
        stop = start + arg.shape[axis]
        parts.append(cut(d, axis, start, stop))
        start = stop
    return tuple(parts)


def _cut(y: Expr, d: Expr) -> Cotangents:
    axis = y.typed_attr("axis", int)
    return (pad(d, axis, y.typed_attr("start", Dim), y.args[0].shape[axis]),)


def _pad(y: Expr, d: Expr) -> Cotangents:
    axis, start = y.typed_attr("axis", int), y.typed_attr("start", Dim)
    return (cut(d, axis, start, start + y.args[0].shape[axis]),)


def _gather(y: Expr, d: Expr) -> Cotangents:
    table, ids = y.args
    batch = batch_of(y)
    return scatter_add(d, ids, table.shape[batch], batch), None


def _dropout(y: Expr, d: Expr) -> Cotangents:
    scaled = bool(y.attr("scaled"))
    return dropout_apply(d, y.args[1], y.typed_attr("p", Scalar), scaled=scaled), None


def _of_function(gradient: Callable[[Expr, Expr], Expr]) -> Rule:
    return lambda y, d: (gradient(y, d),)


def _cumsum(y: Expr, d: Expr) -> Cotangents:
    backwards = not y.typed_attr("backwards", bool)
    return (cumsum(d, y.typed_attr("axis", int), backwards=backwards),)


RULES: Final[Mapping[str, Rule]] = {
    "neg": lambda y, d: (-d,),
    **{name: _of_function(f.gradient) for name, f in FUNCTIONS.items() if f.gradient},
    "add": lambda y, d: (d, d),
    "sub": lambda y, d: (d, -d),
    "mul": lambda y, d: (d * y.args[1], d * y.args[0]),
    "div": _div,
    "pow": _pow,
    **dict.fromkeys(("gt", "ge", "eq", "and", "or"), lambda y, d: (None, None)),
    **dict.fromkeys(STOPPING, lambda y, d: (None,)),
    "sum": lambda y, d: (_spread(y, d),),
    "mean": _mean,
    "cumsum": _cumsum,
    "contract": _contract,
    "reshape": lambda y, d: (reshape(d, y.args[0].shape),),
    "transpose": _transpose,
    "concat": _concat,
    "cut": _cut,
    "pad": _pad,
    "window": lambda y, d: (overlap(d, y.typed_attr("axis", int), Windows.of(y)),),
    "overlap": lambda y, d: (window(d, y.typed_attr("axis", int), Windows.of(y)),),
    "gather": _gather,
    "scatter_add": lambda y, d: (gather(d, y.args[1], batch_of(y)), None),
    "pick": lambda y, d: (place(d, y.args[1], y.args[0].shape[-1]), None),
    "place": lambda y, d: (pick(d, y.args[1]), None),
    "dropout_apply": _dropout,
}

Choice = Callable[[Expr, Cotangent], Sequence[Cotangent | None]]

CHOOSING: Final[Mapping[str, Choice]] = {
    "maximum": _larger,
    "minimum": _larger,
    "where": _where,
    "max": _largest,
}

# Element by element: a sign keeps zeros, a slope may be infinite where the value is not chosen.
SIGNED: Final = frozenset({"neg", "add", "sub"})
SLOPED: Final = (UNARY | ARITHMETIC | {"pow"}) - SIGNED - CHOOSING.keys()

# How a condition moves from a result to the arguments.
MOVING: Final[Mapping[str, Rule]] = {
    "sum": lambda y, c: (_spread(y, c),),
    "mean": lambda y, c: (_spread(y, c),),
    **{prim: RULES[prim] for prim in ("reshape", "transpose", "concat", "pad")},
}
