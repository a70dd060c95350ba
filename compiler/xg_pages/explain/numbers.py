"""Arrays as rows of text: four digits or as few as are exact, the same in all of an array."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

import numpy as np

from xg.diagnostics.lazy_dataclass import dataclass
from xg.verify.examples.claim_check import Array

ROWS: Final = 8
COLUMNS: Final = 8
DIGITS: Final = 4
DECIMALS_AT_MOST: Final = 8
LARGE: Final = 1e6  # from here on numbers have exponents
SMALL: Final = 1e-6  # and below this
NOTHING: Final = 1e-12  # of the largest number beside it: the rounding error of a zero


@dataclass(frozen=True, slots=True)
class Rows:
    """The first matrix of an array as texts; `cut` says what is left out, empty for nothing."""

    rows: tuple[tuple[str, ...], ...]
    cut: str


def rows(array: Array) -> Rows:
    """The shown part of an array.

    >>> rows(np.array([[0.13, -2.0], [1e-17, np.inf]]))
    Rows(rows=(('0.13', '-2.00'), ('0.00', '∞')), cut='')
    """
    matrix = array
    while matrix.ndim > 2:
        matrix = matrix[0]
    shown = np.atleast_2d(matrix)[:ROWS, :COLUMNS]
    spell = _speller(shown)
    texts = tuple(tuple(spell(float(number)) for number in row) for row in shown)
    return Rows(texts, _cut(array, shown))


def number(value: float) -> str:
    """One number beside others in a line.

    >>> number(0.130000001), number(12.0), number(-0.0)
    ('0.13', '12', '0')
    """
    text = f"{value + 0.0:.4g}"
    return _special(value) or ("0" if text == "-0" else text)


def shape(array: Array) -> str:
    """``3 × 5``, ``3 numbers``, ``one number``."""
    if len(array.shape) == 1 and array.size != 1:
        return f"{array.size} numbers"
    return "one number" if array.ndim < 2 else " × ".join(map(str, array.shape))


def _cut(array: Array, shown: Array) -> str:
    matrices = math.prod(array.shape[:-2])
    parts = [f"the first of {matrices} matrices"] if matrices > 1 else []
    rows_, columns = np.atleast_2d(array).shape[-2:]
    if rows_ > shown.shape[0]:
        parts.append(f"{shown.shape[0]} of {rows_} rows")
    if columns > shown.shape[1]:
        parts.append(f"{shown.shape[1]} of {columns} columns")
    return ", ".join(parts)


def _speller(shown: Array) -> Callable[[float], str]:
    """How the numbers of one array are written."""
    if np.issubdtype(shown.dtype, np.integer):
        return lambda value: str(int(value))
    sizes = np.abs(shown[np.isfinite(shown)])
    peak = float(sizes.max(initial=0.0))
    if peak and not SMALL <= peak < LARGE:
        return lambda value: _special(value) or f"{_clean(value, peak):.{DIGITS - 1}e}"
    before = math.floor(math.log10(peak)) if peak else 0
    most = min(max(DIGITS - 1 - before, 0), DECIMALS_AT_MOST)
    finite = shown[np.isfinite(shown)]
    enough = (d for d in range(most) if np.all(np.abs(finite.round(d) - finite) <= NOTHING * peak))
    decimals = next(enough, most)
    return lambda value: _special(value) or f"{_clean(value, peak):.{decimals}f}"


def _special(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    return "" if math.isfinite(value) else "∞" if value > 0 else "-∞"


def _clean(value: float, peak: float) -> float:
    return value if abs(value) > NOTHING * peak else 0.0
