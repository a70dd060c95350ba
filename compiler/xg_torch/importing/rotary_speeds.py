"""How fast rotary positions turn: by a base, or slowed for long texts, as in Llama 3.1 and YaRN."""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from xg.diagnostics.lazy_dataclass import dataclass, replace
from xg_torch.importing.archive import Array

SURE: Final = 1e-4  # a share that is closer to 0 or 1 is 0 or 1
LOW: Final = 1.0  # only the ratios of low, high and trained count
APART: Final = 1e-3  # of YaRN: the width of a change from one pair to the next
HIGH: Final = 4.0  # of published models; two shares between 0 and 1 tell others


@dataclass(frozen=True, slots=True)
class Turns:
    """The base, and the numbers by which slow pairs are slowed: factor, low, high, trained.

    With `pairs` the change is gradual in the number of the pair, as in YaRN, and not in its turns.
    `scale` is what the cosines and sines are multiplied by.
    """

    base: float
    slowed: tuple[tuple[str, float], ...] = ()
    pairs: bool = False
    scale: float = 1.0

    def speeds(self, width: int) -> Array:
        """The angle of each pair from one position to the next."""
        speed: Array = self.base ** (-2.0 / width * np.arange(width // 2, dtype=np.float64))
        if not self.slowed:
            return speed
        factor, low, high, trained = (value for _, value in self.slowed)
        if self.pairs:
            first, last = (_pair(turns, trained, self.base, width) for turns in (high, low))
            ramp = np.arange(width // 2) - max(math.floor(first), 0)
            span = min(math.ceil(last), width - 1) - max(math.floor(first), 0)
            kept = 1 - np.clip(ramp / (span or APART), 0, 1)
        else:
            kept = np.clip((speed * trained / (2 * math.pi) - low) / (high - low), 0, 1)
        return speed * ((1 - kept) / factor + kept)


def turns_of(found: Array, width: int) -> Turns:
    """The turns whose speeds these are; with a base alone where there are none.

    The second pair tells the base, or the last two where even the second is slowed.
    """
    if width < 4:
        return Turns(10000.0)  # a single pair has no base
    plain = Turns(_base(float(found[1]), width))
    bases = plain.base, _base(float(found[-1]) / max(float(found[-2]), 1e-30), width)
    slowed = [
        of(found, Turns(base).speeds(width), base) for of in (_slowed, _by_pairs) for base in bases
    ]
    for turns in (plain, *slowed):
        if np.allclose(turns.speeds(width), found, rtol=SURE, atol=0):
            return turns
    return plain


def scaled(turns: Turns, height: float) -> Turns:
    """The turns whose tables are so high; of YaRN by its factor, where that is as good."""
    usual = 0.1 * math.log(turns.slowed[0][1]) + 1 if turns.pairs else 1.0
    return replace(turns, scale=usual if abs(usual - height) < 1e-6 else _rounded(height))


def _slowed(found: Array, plain: Array, base: float) -> Turns:
    """The numbers by which slow pairs are slowed, if the last pair is one of them."""
    ratio = found / plain
    if not 0 < ratio[-1] < 1 - SURE:
        return Turns(base)
    factor = _rounded(1 / float(ratio[-1]))
    kept = (ratio - 1 / factor) / (1 - 1 / factor)
    between = np.flatnonzero((kept > SURE) & (kept < 1 - SURE))
    whole = plain[kept >= 1 - SURE]
    below = 1 / (HIGH - LOW)
    if len(between) > 1:
        first, last = between[0], between[-1]
        slope = (kept[first] - kept[last]) / (plain[first] - plain[last])
        below = max(slope * plain[first] - kept[first], SURE)
    elif len(between):
        slope = (kept[between[0]] + below) / plain[between[0]]
    else:
        slope = (1 + below) / (whole[-1] if len(whole) else plain[0])
    high = _rounded(LOW + 1 / float(below))
    trained = _rounded(2 * math.pi * float(slope) * (high - LOW))
    return Turns(base, (("factor", factor), ("low", LOW), ("high", high), ("trained", trained)))


def _by_pairs(found: Array, plain: Array, base: float) -> Turns:
    """The same where the change is gradual by pairs; of many numbers that do, round ones."""
    ratio, width = found / plain, 2 * len(found)
    if not 0 < ratio[-1] < 1 - SURE:
        return Turns(base)
    factor = _rounded(1 / float(ratio[-1]))
    kept = (ratio - 1 / factor) / (1 - 1 / factor)
    first = int(np.flatnonzero(kept >= 1 - SURE)[-1]) if kept[0] >= 1 - SURE else 0
    last = int(np.flatnonzero(kept <= SURE)[0])
    per_pair = base ** (2 / width)
    most = 2 * math.pi * per_pair**last  # low turns of the last pair, one with low = 1
    trained = _round_between(most / per_pair, most)
    most = trained / (2 * math.pi * per_pair**first)
    high = _round_between(most / per_pair, most)
    numbers = (("factor", factor), ("low", LOW), ("high", high), ("trained", trained))
    return Turns(base, numbers, pairs=True)


def _pair(turns: float, trained: float, base: float, width: int) -> float:
    """The pair of so many turns in the trained positions, as a real number."""
    return width * math.log(trained / (turns * 2 * math.pi)) / (2 * math.log(base))


def _round_between(low: float, high: float) -> float:
    """A power of two between two numbers, or else a number of few digits, or the middle."""
    power = 2.0 ** math.floor(math.log2(high) - SURE)
    if power > low:
        return power
    middle = math.sqrt(low * high)
    tidy = (float(f"{middle:.{digits}g}") for digits in (1, 2, 3))
    return next((each for each in tidy if low < each < high), middle)


def _base(angle: float, width: int) -> float:
    """The base whose second angle at position 1 this is; a round number if it is as good."""
    exact = max(angle, 1e-30) ** (-width / 2)
    rounded = float(f"{exact:.3g}")
    return rounded if abs(rounded / exact - 1) < 1e-4 else exact


def _rounded(exact: float) -> float:
    """A number as configurations have it, if it is as good: tables are rounded to float32."""
    rounded = float(f"{exact:.4g}")
    return rounded if abs(rounded - exact) < 1e-5 * abs(exact) else exact
