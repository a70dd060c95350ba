"""Compute once whatever is the same along an axis.

The gradient of a sum is the same number everywhere. As an array it would have every axis of the
operand: products with it would be computed for each position, and a plan that divides the axis
would find a whole array where each rank needs its part. Here such an axis has size 1 until
something needs its positions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from xg.diagnostics.lazy_dataclass import replace
from xg.ir.body import topological
from xg.ir.dim import ONE
from xg.ir.functions import UNARY
from xg.ir.prim import ARITHMETIC, Expr, binary, broadcast, const, contract, reshape
from xg.ir.scalar import Scalar, as_scalar
from xg.ir.tensor import Shape

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
