"""Axes of a chart: where the ticks are and how numbers are written there."""

import math


def ticks(low: float, high: float, about: int = 5) -> list[float]:
    """Return round numbers in [low, high], near `about` of them, at steps of 1, 2 or 5 · 10ⁿ.

    >>> ticks(0, 300)
    [0.0, 50.0, 100.0, 150.0, 200.0, 250.0, 300.0]
    >>> ticks(1.93, 4.61)
    [2.0, 2.5, 3.0, 3.5, 4.0, 4.5]
    """
    step = _round_step((high - low) / about)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [_tidy(place * step) for place in range(first, last + 1)]


def label(number: float) -> str:
    """Return a tick's number: 0.5, 20, 1.5k, 2M, 1e-05.

    >>> [label(x) for x in (0.5, 20.0, 1500.0, 2e6, 0.00001)]
    ['0.5', '20', '1.5k', '2M', '1e-05']
    """
    for unit, letter in ((1e6, "M"), (1e3, "k")):
        if abs(number) >= unit:
            return f"{number / unit:g}{letter}"
    return f"{number:g}"


def _round_step(rough: float) -> float:
    """Return the largest of 1, 2, 5 · 10ⁿ up to about `rough`."""
    magnitude = 10.0 ** math.floor(math.log10(rough))
    return max(size * magnitude for size in (1, 2, 5) if size * magnitude <= rough * 1.0001)


def _tidy(number: float) -> float:
    """Return the number without the last digits' noise: 0.30000000000000004 is 0.3."""
    return float(f"{number:.12g}")
