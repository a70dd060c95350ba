"""Formulas as numbers that people read."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Final

from xg.ir.dim import Dim

_UNITS: Final = (("s", 1.0), ("ms", 1e-3), ("us", 1e-6), ("ns", 1e-9))


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
