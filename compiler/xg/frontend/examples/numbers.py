"""The numbers of a document as the file prints them: a shape, values, and how exact each is."""

from __future__ import annotations

import math
import re
from typing import Final

from xg.diagnostics.lazy_dataclass import dataclass
from xg.diagnostics.source import Span
from xg.frontend.examples.errors import NotANumber, Ragged
from xg.passes.resolve.errors import Refused
from xg.passes.resolve.expressions import ExpressionReader
from xg.syntax import ast

_CONSTANT: Final = ExpressionReader(frozenset(), frozenset(), {})
_DECIMAL: Final = re.compile(r"\d*\.?(?P<decimals>\d*)(?:[eE](?P<power>[+-]?\d+))?")


@dataclass(frozen=True, slots=True)
class Printed:
    """One number: as it is written, its value, and half a unit of its last digit.

    `half` is None for an expression (`1/3`), which has no last digit.
    """

    text: str
    value: float
    half: float | None
    span: Span


@dataclass(frozen=True, slots=True)
class Numbers:
    """An array of printed numbers, in row-major order; a scalar has the shape ()."""

    shape: tuple[int, ...]
    items: tuple[Printed, ...]
    span: Span

    @property
    def values(self) -> tuple[float, ...]:
        """The numbers alone."""
        return tuple(item.value for item in self.items)


def read(expr: ast.Expr) -> Numbers:
    """Numbers in brackets, or one number; raises Refused.

    Level by level: after the first item of a level is a number, all of them are.
    """
    level: list[ast.Expr] = [expr]
    shape: list[int] = []
    while isinstance(level[0], ast.Array):
        length = len(level[0].items)
        shape.append(length)
        level = [item for row in level for item in _row(row, length)]
    return Numbers(tuple(shape), tuple(map(number, level)), expr.span)


def _row(expr: ast.Expr, length: int) -> tuple[ast.Expr, ...]:
    """The items of one array, which has as many as the first beside it."""
    if not isinstance(expr, ast.Array):
        raise Refused(Ragged(expr.span, f"a row of {length}", "a number"))
    if len(expr.items) != length:
        raise Refused(Ragged(expr.span, f"a row of {length}", f"one of {len(expr.items)}"))
    if not length:
        raise Refused(Ragged(expr.span, "at least one", "no number"))
    return expr.items


def number(expr: ast.Expr) -> Printed:
    """One finite number; raises Refused."""
    if isinstance(expr, ast.Array):
        raise Refused(Ragged(expr.span, "a number", f"a row of {len(expr.items)}"))
    digits = expr.operand if isinstance(expr, ast.Negation) else expr
    half = last_digit(digits.digits) if isinstance(digits, ast.Number) else None
    return Printed(expr.span.text, _value(expr), half, expr.span)


def _value(expr: ast.Expr) -> float:
    try:
        value = _CONSTANT.scalar(expr).evaluate({})
    except (Refused, ArithmeticError, ValueError):
        value = math.nan
    if not math.isfinite(value):
        raise Refused(NotANumber(expr.span))
    return value


def last_digit(digits: str) -> float:
    """Half a unit of the last digit that a number is written with.

    >>> last_digit("0.340"), last_digit("12"), last_digit("1.5e3")
    (0.0005, 0.5, 50.0)
    """
    parts = _DECIMAL.fullmatch(digits)
    assert parts, digits
    return float(f"5e{int(parts['power'] or 0) - len(parts['decimals']) - 1}")
