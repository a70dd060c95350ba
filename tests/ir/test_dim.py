"""Tests of sizes as polynomials."""

from __future__ import annotations

import pytest

from xg.ir.dim import ZERO, Dim, DimError, number, symbol

D, N_H, S, T = map(symbol, ("D", "N_H", "S", "T"))
# A size, a sum that it is a multiple of, and how often.
MULTIPLES = [
    ((S + 1) * 2, S + 1, number(2)),
    ((S + 1) * D / N_H, S + 1, D / N_H),
    ((S - T) * (S + T * 2 - 3), S + T * 2 - 3, S - T),
    (S**3 - 1, S - 1, S**2 + S + 1),
    ((S / N_H + T) * D, S / N_H + T, D),
    (ZERO, S + 1, ZERO),
]


@pytest.mark.parametrize(("dividend", "divisor", "quotient"), MULTIPLES)
def test_a_multiple_of_a_sum_is_divided_by_it(dividend: Dim, divisor: Dim, quotient: Dim) -> None:
    assert dividend / divisor == quotient
    assert divisor * quotient == dividend


@pytest.mark.parametrize("dividend", [S, S + 2, S * 2 + 1, D, S**2 + 1, number(1)])
def test_nothing_else_is_divided_by_a_sum(dividend: Dim) -> None:
    with pytest.raises(DimError, match=r"cannot divide by S \+ 1: only products divide"):
        _ = dividend / (S + 1)
