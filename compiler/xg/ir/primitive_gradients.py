"""The derivative of every primitive, and the reverse sweep that makes adjoints from them.

A rule takes the cotangent of a primitive's result and gives one cotangent per argument, None where
no gradient flows. Rules are written in primitives, so a derived adjoint is a body like any other.
Where a primitive chooses among its arguments, the sweep puts a gate in the way (`Gate`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from typing import Final

from xg.diagnostics.lazy_dataclass import dataclass, replace
from xg.ir.body import Body, topological
from xg.ir.dim import ONE, Dim, Scalar, as_scalar, product
from xg.ir.functions import FUNCTIONS, STEPS, UNARY
from xg.ir.prim import (
    ARITHMETIC,
    RANDOM,
    Expr,
    Windows,
    batch_of,
    binary,
    broadcast,
    const,
    contract,
    cumsum,
    cut,
    dropout_apply,
    equal,
    gather,
    maximum,
    overlap,
    pad,
    pick,
    place,
    reduce_max,
    reduce_sum,
    reshape,
    scatter_add,
    transpose,
    where,
    window,
)
from xg.ir.tensor import Shape

# Cotangents that are 0 wherever a condition says that the value was not chosen.
#
# ``select(x > 0, sqrt(x), 0)`` is finite everywhere, though ``sqrt`` has no slope where x <= 0. Its
# gradient is ``where(x > 0, d / (2 sqrt(x)), 0)``: the zero comes last. ``where(x > 0, d, 0)``
# divided by ``2 sqrt(x)`` would be 0/0, so the reverse sweep keeps the condition beside the
# cotangent until something reads the cotangent as a whole.
#
# Under a plan each rank uses the condition of its own part on its own term of a sum. If none of its
# values was chosen, its term is 0 already. The condition of all ranks would cost an all-reduce for
# the same sum.


Map = Callable[[Expr], Expr]


@dataclass(frozen=True, slots=True)
class Gate:
    """A condition that opens (`holds`) or shuts the way of a cotangent.

    `applied` says that the value is 0 already where the gate is shut.
    """

    condition: Expr
    holds: bool = True
    applied: bool = False

    def close(self, value: Expr) -> Expr:
        """The value, 0 where the gate is shut."""
        return (
            where(self.condition, value, 0.0) if self.holds else where(self.condition, 0.0, value)
        )


@dataclass(frozen=True, slots=True)
class Cotangent:
    """A value that counts only where all gates are open."""

    value: Expr
    gates: tuple[Gate, ...] = ()

    @property
    def closed(self) -> Expr:
        """Return the value with all gates applied: 0 where one is shut."""
        return _close_gates([gate for gate in self.gates if not gate.applied], self.value)

    def through(self, gate: Gate) -> Cotangent:
        """Add one more gate."""
        return replace(self, gates=(*self.gates, gate))

    def with_multiple(self, value: Expr) -> Cotangent:
        """Set the value to a multiple, with any slope, even NaN, where a gate is shut."""
        return Cotangent(value, tuple(replace(gate, applied=False) for gate in self.gates))

    def moved(self, value: Expr, shape: Shape, move: Map) -> Cotangent:
        """Set the value to the closed one, moved, and move the gates of its shape likewise."""
        conditions = [(move(broadcast(g.condition, shape)), g.holds) for g in self.gates]
        return Cotangent(value, tuple(Gate(c, holds, applied=True) for c, holds in conditions))

    def sum_to_shape(self, shape: Shape) -> Cotangent:
        """Sum over the axes along which a `shape` was repeated; open where any part was."""
        if self.value.shape == shape:
            return self
        total = unbroadcast(self.closed, shape)
        if not self.gates:
            return Cotangent(total)
        spread = broadcast(self._open(), self.value.shape)
        return Cotangent(total, (_positive(_reduce_to_shape(spread, shape, any_open)),))

    def plus(self, other: Cotangent) -> Cotangent:
        """The sum of two: open where either is."""
        shared = _shared(self.gates, other.gates)
        if len(self.gates) == len(other.gates) == len(shared):
            same = all(a.applied == b.applied for a, b in zip(self.gates, other.gates, strict=True))
            total = self.value + other.value
            return replace(self, value=total) if same else self.with_multiple(total)
        if _opposite(self.gates, other.gates, len(shared)):
            last = self.gates[-1]
            yes, no = (self, other) if last.holds else (other, self)
            return Cotangent(where(last.condition, yes.value, no.value), shared)
        total = self.closed + other.closed
        if not self.gates or not other.gates:
            return Cotangent(total)
        return Cotangent(total, (_positive(maximum(self._open(), other._open())),))

    def _open(self) -> Expr:
        """1 where all gates are open, else 0."""
        return _close_gates(self.gates, const(1.0))


def any_open(x: Expr, axes: Sequence[int] | int = -1, *, keep: bool = True) -> Expr:
    """Whether any is open, of gates that are 1 or 0: a maximum that each rank takes of its own."""
    largest = reduce_max(x, axes, keep=keep)
    return replace(largest, attrs=(*largest.attrs, ("gate", True)))


def unbroadcast(x: Expr, shape: Shape) -> Expr:
    """The seed's reduce_like: sum over the axes along which a `shape` was repeated (000, 3.1)."""
    return _reduce_to_shape(x, shape, reduce_sum)


def _reduce_to_shape(x: Expr, shape: Shape, reduce: Callable[..., Expr]) -> Expr:
    if x.shape == shape:
        return x
    extra = x.rank - len(shape)
    leading = tuple(range(-x.rank, -len(shape)))
    repeated = tuple(
        i - len(shape) for i, dim in enumerate(shape) if dim == ONE and x.shape[extra + i] != ONE
    )
    reduced = reduce(x, repeated) if repeated else x
    return reduce(reduced, leading, keep=False) if leading else reduced


def _positive(indicator: Expr) -> Gate:
    return Gate(indicator > 0.0, applied=True)


def _close_gates(gates: Sequence[Gate], value: Expr) -> Expr:
    for gate in reversed(gates):
        value = gate.close(value)
    return value


def _shared(a: Sequence[Gate], b: Sequence[Gate]) -> tuple[Gate, ...]:
    """Return the gates that two cotangents have in common, from the first on."""
    shared: list[Gate] = []
    for x, y in zip(a, b, strict=False):
        if x.condition is not y.condition or x.holds != y.holds:
            break
        shared.append(replace(x, applied=x.applied and y.applied))
    return tuple(shared)


def _opposite(a: Sequence[Gate], b: Sequence[Gate], shared: int) -> bool:
    """Return whether only the last gates differ: one condition, open on opposite sides."""
    return len(a) == len(b) == shared + 1 and a[-1].condition is b[-1].condition


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


# Compute once whatever is the same along an axis.
#
# The gradient of a sum is the same number everywhere. As an array it would have every axis of the
# operand: products with it would be computed for each position, and a plan that divides the axis
# would find a whole array where each rank needs its part. Here such an axis has size 1 until
# something needs its positions.


_EACH: Final = (UNARY - {"stop"}) | {"pow"}


def without_repeats(outputs: Sequence[Expr]) -> tuple[Expr, ...]:
    """The same outputs, with axes of size 1 where an expression only repeats along them."""
    small: dict[int, Expr] = {}
    whole: dict[int, Expr] = {}

    def full(expr: Expr) -> Expr:
        """The expression with all its axes, made once; a number has none."""
        if expr.prim == "const":
            return expr
        if id(expr) not in whole:
            whole[id(expr)] = _repeat(small[id(expr)], expr.shape)
        return whole[id(expr)]

    for expr in topological(outputs):
        args = [small[id(arg)] for arg in expr.args]
        if expr.prim == "broadcast":
            small[id(expr)] = _with_rank(args[0], expr.shape)
        elif expr.prim in ARITHMETIC and expr.kind == "float":
            small[id(expr)] = _with_rank(_arithmetic(expr, args), expr.shape)
        elif expr.prim in _EACH and args[0].prim != "const":
            small[id(expr)] = replace(expr, args=(args[0],), shape=args[0].shape)
        elif expr.prim == "contract":
            small[id(expr)] = _product(expr, args)
        else:
            parts = tuple(full(arg) for arg in expr.args)
            same = all(new is old for new, old in zip(parts, expr.args, strict=True))
            small[id(expr)] = expr if same else replace(expr, args=parts)
    return tuple(full(output) for output in outputs)


def _arithmetic(expr: Expr, args: Sequence[Expr]) -> Expr:
    """An elementwise operation; a factor of 1 is left out."""
    if expr.prim == "mul":
        for one, other in (args, args[::-1]):
            if _is_one(one) and other.kind == "float":
                return other
    numbers = [arg.typed_attr("value", Scalar) for arg in args if arg.prim == "const"]
    if len(numbers) == len(args) and (number := _of_numbers(expr.prim, *numbers)):
        return const(number)
    made = binary(expr.prim, *args)
    if len(made.shape) == len(expr.shape) and made.shape == expr.shape:
        same = all(new is old for new, old in zip(args, expr.args, strict=True))
        return expr if same else replace(expr, args=tuple(args))
    return made.named(expr.name) if expr.name else made


def _of_numbers(prim: str, first: Scalar, second: Scalar) -> Scalar | None:
    """The number that an operation makes of two."""
    match prim:
        case "add":
            return first + second
        case "sub":
            return first - second
        case "mul":
            return first * second
        case "div":
            return first / second
        case _:
            return None


def _is_one(expr: Expr) -> bool:
    return expr.prim == "const" and expr.typed_attr("value", Scalar) == as_scalar(1.0)


def _with_rank(expr: Expr, shape: Shape) -> Expr:
    """The expression with axes of size 1 in front; a number stays one."""
    missing = len(shape) - expr.rank
    if not missing or expr.prim == "const":
        return expr
    return reshape(expr, (*(ONE,) * missing, *expr.shape))


def _repeat(expr: Expr, shape: Shape) -> Expr:
    """The expression as an array of a shape."""
    if expr.prim == "const" and expr.kind == "float":
        return Expr("broadcast", (expr,), shape)
    return broadcast(expr, shape)


def _product(expr: Expr, args: Sequence[Expr]) -> Expr:
    """A contraction whose free axes may have size 1; those of both operands need all positions."""
    spec = expr.typed_attr("spec", str)
    inputs, output = spec.split("->")
    sides = inputs.split(",")
    parts: list[Expr] = []
    for side, other, arg, old in zip(sides, reversed(sides), args, expr.args, strict=True):
        arg = _repeat(arg, (ONE,) * old.rank) if arg.prim == "const" else arg
        pairs = zip(side, arg.shape, old.shape, strict=True)
        shape = tuple(
            new if letter in output and letter not in other else dim for letter, new, dim in pairs
        )
        parts.append(_repeat(arg, shape))
    if all(new is old for new, old in zip(parts, expr.args, strict=True)):
        return expr
    first, second = parts
    made = contract(first, second, spec)
    return made.named(expr.name) if expr.name else made
