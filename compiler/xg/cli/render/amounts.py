"""Values of results: formulas, numbers and times, as text and as data."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from math import isfinite
from typing import Final

from xg.diagnostics.lazy_dataclass import dataclass
from xg.ir.dim import Dim

_UNITS: Final = (("s", 1.0), ("ms", 1e-3), ("us", 1e-6), ("ns", 1e-9))


@dataclass(frozen=True, slots=True)
class Evaluated:
    """A formula with the numbers for its symbols: text is the number, data are both."""

    dim: Dim
    numbers: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Seconds:
    """Seconds, None where they are unknown."""

    number: float | None


Cell = str | int | float | bool | Dim | Evaluated | Seconds | Mapping[str, object] | None


def text_of(cell: Cell) -> str:
    """A value as people read it."""
    match cell:
        case None:
            return ""
        case Evaluated(dim, numbers):
            return amount(dim, numbers)
        case Seconds(time):
            return seconds(time)
        case _:
            return str(cell)


def data_of(cell: Cell) -> object:
    """A value as JSON has it: a formula as text, what is not finite as null."""
    match cell:
        case Dim():
            return str(cell)
        case Evaluated(dim, numbers):
            return {"formula": str(dim), "number": evaluated(dim, numbers)}
        case Seconds(time):
            return time
        case float() if not isfinite(cell):
            return None
        case _:
            return cell


def evaluated(dim: Dim, numbers: Mapping[str, int]) -> int | None:
    """A formula as a number, None while a symbol has none.

    Elements that do not divide evenly among ranks are rounded up.
    """
    if any(name not in numbers for name in dim.symbols()):
        return None
    total = Fraction(0)
    for monomial, coefficient in dim.terms:
        term = coefficient
        for name, power in monomial:
            term *= Fraction(numbers[name]) ** power
        total += term
    return -(-total.numerator // total.denominator)


def amount(dim: Dim, numbers: Mapping[str, int]) -> str:
    """A formula as a number with commas, or ``?``."""
    value = evaluated(dim, numbers)
    return "?" if value is None else f"{value:,}"


def seconds(value: float | None) -> str:
    """A time with three digits, or ``?``."""
    if value is None:
        return "?"
    unit, scale = next((each for each in _UNITS if value >= each[1]), _UNITS[-1])
    return f"{value / scale:.3g} {unit}" if value else "0"
