"""Sizes and numbers of the printed IR: one notation, read as a `Dim` or as a `Scalar`.

An expression is kept in postfix order, so that nothing recurses however deep it is nested.
"""

from __future__ import annotations

from functools import cache
from typing import Final

from xg.diagnostics.lazy_dataclass import dataclass
from xg.ir.dim import ONE, Dim, DimError, number, symbol
from xg.ir.scalar import FUNCTIONS, Scalar
from xg.ir.tensor import Sizes
from xg.passes.ir_text.errors import Meaningless

SIZE: Final = "size"  # the function whose argument is a size without a name of its own


@dataclass(frozen=True, slots=True)
class SizeName:
    """The name of a size."""

    name: str


@dataclass(frozen=True, slots=True)
class Applied:
    """An operation on the items before it: one of ``+ - * / ^``, ``neg``, or a function."""

    operation: str


@dataclass(frozen=True, slots=True)
class Whole:
    """A size inside a number: ``size(B*S)``."""

    expression: Expression


Item = int | float | SizeName | Applied | Whole
Expression = tuple[Item, ...]


def as_dim(expression: Expression, sizes: Sizes | None = None) -> Dim:
    """The size that an expression is; with `sizes` free of defined symbols."""
    stack: list[Dim] = []
    for item in expression:
        match item:
            case int():
                stack.append(number(item))
            case SizeName():
                stack.append(symbol(item.name))
            case Applied():
                right = stack.pop()
                left = stack.pop() if item.operation in "+-*/^" else ONE
                stack.append(_combined(left, item.operation, right))
            case _:
                raise Meaningless("a size is made of whole numbers and names")
    (dim,) = stack
    return dim if sizes is None else sizes.expand(dim)


def _combined(left: Dim, operation: str, right: Dim) -> Dim:
    try:
        match operation:
            case "+":
                return left + right
            case "-":
                return left - right
            case "*":
                return left * right
            case "/":
                return left / right
            case "neg":
                return right * -1
            case "^" if right.constant is not None:
                return left**right.constant
            case other:
                raise Meaningless(f"a size cannot be made with {other}")
    except DimError as error:
        raise Meaningless(str(error)) from None


def as_number(expression: Expression) -> int | Scalar:
    """The number that an attribute is: a whole number alone is an int, all else a `Scalar`."""
    match expression:
        case (int() as value,):
            return value
        case (int() as value, Applied(operation="neg")):
            return -value
        case _:
            return as_scalar(expression)


@cache
def as_scalar(expression: Expression) -> Scalar:
    """The real number that an expression is, its operations and sizes as they are written.

    One text is one object: a backend asks whether a body has the very number of an attribute.
    """
    stack: list[Scalar] = []
    for item in expression:
        match item:
            case int() | float():
                stack.append(Scalar("number", (), float(item)))
            case SizeName():
                stack.append(Scalar("size", (), symbol(item.name)))
            case Whole():
                stack.append(Scalar("size", (), as_dim(item.expression)))
            case Applied(operation="neg"):
                stack.append(_negative(stack.pop()))
            case Applied() if item.operation in FUNCTIONS:
                stack.append(Scalar(item.operation, (stack.pop(),)))
            case Applied() if item.operation in "+-*/^":
                right, left = stack.pop(), stack.pop()
                stack.append(Scalar(item.operation, (left, right)))
            case Applied():
                functions = ", ".join((*FUNCTIONS, SIZE))
                raise Meaningless(f"expected {functions}, not {item.operation}")
    (scalar,) = stack
    return scalar


def _negative(scalar: Scalar) -> Scalar:
    if not isinstance(scalar.value, float) or scalar.op != "number":
        raise Meaningless("expected a number after -")
    return Scalar("number", (), -scalar.value)


def spell_scalar(scalar: Scalar) -> str:
    """A number as `as_scalar` reads it; a plain one has a point or an exponent."""
    if scalar.op == "number":
        assert isinstance(scalar.value, float)
        return repr(scalar.value).replace("inf", "1e999")
    return scalar.spell(_spell_size, lambda name, arg: f"{name}({arg})", power="^")


def _spell_size(dim: Dim) -> str:
    return dim.name or f"{SIZE}({dim})"


def spell_dim(dim: Dim, sizes: Sizes) -> str:
    """A size under the names that the file gives."""
    return str(sizes.fold(sizes.expand(dim)))
