"""Finite differences of one number along a line, with an estimate of their own error.

    quick(line, scale) -> float       two evaluations, good to about 9 digits where f is smooth
    careful(line, scale) -> Slope     a ladder of steps, Richardson extrapolation, kinks noticed

A `line` maps an offset t to the terms of f(x + t·v): a vector whose sum is the number. Differences
are taken term by term before summing, so that terms the offset does not reach cancel exactly.
`scale` is the length over which x is known to vary, a power of two: steps are then exact.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, TypeAlias

import numpy as np

from xg_runtime.module import Array

Line: TypeAlias = Callable[[float], Array]

_EPSILON: Final = float(np.finfo(np.float64).eps)
# Balances truncation, h²/6, with rounding, ε/h, in favour of less rounding.
_QUICK_STEP: Final = 2.0**-15
_RATIO: Final = 4.0
_STEPS: Final = tuple(2.0**-power for power in range(5, 23, 2))


@dataclass(frozen=True)
class Slope:
    """A derivative and a bound it is believed to hold to; a kink or noise makes `error` large."""

    value: float
    error: float


@dataclass(frozen=True)
class _Difference:
    """What one step h tells: the central difference and the jump from left to right slope."""

    centre: float
    jump: float


def quick(line: Line, scale: float) -> float:
    """Return the central difference at one step."""
    step = scale * _QUICK_STEP
    ahead = line(step)
    return float((ahead - line(-step)).sum()) / (2 * step)


def careful(line: Line, scale: float) -> Slope:
    """Return the derivative at the step where its estimates agree best.

    Two steps h and h/4 give one estimate without the h² term; two neighbouring estimates give the
    error. The jump between one-sided slopes, extrapolated to h = 0, is zero where f is smooth: on
    a kink, where central differences agree on a number that means nothing, it is the error.
    """
    here = line(0.0)
    noise = 8 * _EPSILON * float(np.linalg.norm(here))
    steps = [scale * step for step in _STEPS]
    differences = [_difference(line, here, step) for step in steps]
    without_h2 = [_extrapolate(a.centre, b.centre, _RATIO**2) for a, b in pairwise(differences)]
    jumps = [abs(_extrapolate(a.jump, b.jump, _RATIO)) for a, b in pairwise(differences)]
    slopes = [
        Slope(fine, max(abs(fine - coarse), jump, noise / step))
        for coarse, fine, jump, step in zip(
            without_h2, without_h2[1:], jumps[1:], steps[2:], strict=False
        )
    ]
    return min(slopes, key=_error)


def _error(slope: Slope) -> float:
    return math.inf if math.isnan(slope.error) else slope.error


def power_of_two(length: float) -> float:
    """Return a power of two near `length`, 1 for 0."""
    return 2.0 ** round(math.log2(length)) if length > 0 else 1.0


def _difference(line: Line, here: Array, step: float) -> _Difference:
    ahead = line(step)
    behind = line(-step)
    return _Difference(
        centre=float((ahead - behind).sum()) / (2 * step),
        jump=float(((ahead - here) - (here - behind)).sum()) / step,
    )


def _extrapolate(coarse: float, fine: float, ratio: float) -> float:
    """Return what two values, whose leading errors stand in `ratio`, say about step 0."""
    return (ratio * fine - coarse) / (ratio - 1)
