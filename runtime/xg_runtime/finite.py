"""Finite differences of one number along a line, with an estimate of their own error.

    quick(line, here, scale, QUICK)    two evaluations, good to about 9 digits where f is smooth
    quick(line, here, scale, FINE)     good to about 7, and kinks seldom fall within so small a step
    careful(line, here, scale)         a ladder of steps, Richardson extrapolation

A `line` maps an offset t to the terms of f(x + t·v): a vector whose sum is the number. Differences
are taken term by term before summing, so that terms the offset does not reach cancel exactly.
`here` is line(0); `scale` is about how large x is, a power of two: steps are then exact.

On a kink central differences agree, at every step, on a number that means nothing. There the jump
between the slopes on both sides does not shrink with the step, and the error is that jump.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, TypeAlias

import numpy as np

from xg_runtime.module import Array

Line: TypeAlias = Callable[[float], Array]

# Balances truncation, h²/6, with rounding, ε/h, in favour of less rounding.
QUICK: Final = 2.0**-15
FINE: Final = 2.0**-21

_EPSILON: Final = float(np.finfo(np.float64).eps)
_RATIO: Final = 4.0
_STEPS: Final = tuple(2.0**-power for power in range(5, 23, 2))


@dataclass(frozen=True)
class Slope:
    """A derivative, and how far off it may be; a kink or noise makes that large."""

    value: float
    error: float


@dataclass(frozen=True)
class _Difference:
    """The slopes of one step h: the central difference and the jump from left to right slope."""

    centre: float
    jump: float


def quick(line: Line, here: Array, scale: float, step: float) -> Slope:
    """Return the central difference at `scale` · `step`; its error is the jump there, h · f″."""
    difference = _difference(line, here, scale * step)
    return Slope(difference.centre, abs(difference.jump))


def careful(line: Line, here: Array, scale: float) -> Slope:
    """Return the derivative at the step where its estimates agree best.

    Two steps h and h/4 give one estimate without the h² term; two neighbouring estimates give the
    error, unless the jump, extrapolated to h = 0, is larger.
    """
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
    """Return the value at step 0 of two values whose leading errors have this `ratio`."""
    return (ratio * fine - coarse) / (ratio - 1)
