"""Comparison of derived with measured slopes along a group of lines.

Quick differences that agree decide a group. Otherwise its worst lines are measured again with care,
one after the other, until the group agrees or a difference is proven; and so is each line that
seems to be on a kink (ReLU, max), agree or not. Where a kink or rounding hides the slope it is
measured at points nearby; no line is passed over.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from xg_runtime import agreement
from xg_runtime.finite import FINE, QUICK, Slope, careful, quick
from xg_runtime.module import Array
from xg_runtime.probe import SHAKE, Gradient, Objective, Point, Probe
from xg_runtime.random import fold

_MOVES: Final = 4
_KINK: Final = 1e-2  # a larger jump between the slopes on both sides is one
_TINY: Final = 2.0**-30  # a gradient of this norm may consist of rounding errors
_SHAKES: Final = 4  # one draw may round to the same number by chance


@dataclass
class Points:
    """The point of a check, and points nearby, made when they are asked for."""

    objective: Objective
    gradient: Gradient
    first: Point
    seed: int
    _nearby: list[Point] = field(default_factory=list[Point])
    _shaken: list[Point] = field(default_factory=list[Point])

    def iter_points(self) -> Iterator[Point]:
        """Return the first point, then those nearby."""
        yield self.first
        for number in range(_MOVES):
            if number == len(self._nearby):
                seed = fold(self.seed, "nearby", number)
                self._nearby.append(self.first.moved(self.objective, self.gradient, seed))
            yield self._nearby[number]

    def is_rounding(self, name: str) -> bool:
        """Return whether a gradient consists of rounding errors.

        Such a gradient, of ``W * sum(x - mean(x))`` for example, may agree with differences to the
        last digit, and no norm tells it from a small slope. But where the last bits of the values
        change, it becomes another number.
        """
        gradient = self.first.gradients[name]
        norm = float(np.linalg.norm(gradient))
        if not 0 < norm <= _TINY:
            return False
        if not self._shaken:
            seeds = (fold(self.seed, "shaken", number) for number in range(_SHAKES))
            moved = self.first.moved
            self._shaken += [moved(self.objective, self.gradient, seed, SHAKE) for seed in seeds]
        apart = (float(np.linalg.norm(each.gradients[name] - gradient)) for each in self._shaken)
        return max(apart) > norm / 8


@dataclass(frozen=True)
class Comparison:
    """How far a group agrees, its worst line, and whether differences could decide."""

    error: float
    worst: Probe
    derived: float  # along the worst
    measured: float
    settled: bool


def compare(points: Points, probes: Sequence[Probe], total: float, tolerance: float) -> Comparison:
    """Compare along `probes`, at least one; `total` is the norm over all gradients."""
    point = points.first
    slopes = [
        quick(point.line(probe, points.objective), point.terms, point.scale(probe.name), QUICK)
        for probe in probes
    ]
    derived = np.array([point.derived(probe) for probe in probes])
    group = _Group(points, probes, total, tolerance, derived, np.array([s.value for s in slopes]))
    kinks = [place for place, slope in enumerate(slopes) if not slope.error <= _KINK * group.share]
    for place in kinks:
        if not group.rules_out_agreement:
            group.measure_again(place)
    for place in group.worst_first():
        if group.rules_out_agreement or group.error <= tolerance:
            break
        if place not in kinks:
            group.measure_again(place)
    return group.comparison()


@dataclass
class _Group:
    """Slopes along the lines of a group, derived and measured [N], as they get better."""

    points: Points
    probes: Sequence[Probe]
    total: float
    tolerance: float
    derived: Array
    measured: Array
    settled: bool = True
    again: list[int] = field(default_factory=list[int])

    @property
    def error(self) -> float:
        """How far the two are apart, as `agreement` measures it."""
        return agreement.error(self.derived, self.measured, self.total)

    @property
    def scale(self) -> float:
        """The norm that differences are relative to."""
        return agreement.scale(self.derived, self.measured, self.total)

    @property
    def share(self) -> float:
        """The part of `scale` that falls on one line, were it spread evenly."""
        return self.scale / math.sqrt(len(self.probes))

    @property
    def rules_out_agreement(self) -> bool:
        """Whether the lines measured again rule out that the group agrees."""
        apart = np.linalg.norm((self.derived - self.measured)[self.again])
        return not self.settled or bool(apart > self.tolerance * self.scale)

    def measure_again(self, place: int) -> None:
        """Measure one line with care, at points nearby if need be."""
        outcome = _settle(self.points, self.probes[place], self.share, self.tolerance)
        self.derived[place], self.measured[place], self.settled = outcome
        self.again.append(place)

    def worst_first(self) -> list[int]:
        """Return the lines by how far apart their slopes are, NaN and the farthest first."""
        apart = np.nan_to_num(np.abs(self.derived - self.measured), nan=np.inf)
        return [int(place) for place in np.argsort(-apart, kind="stable")]

    def comparison(self) -> Comparison:
        """Return what was found."""
        worst = self.worst_first()[0] if self.settled else self.again[-1]
        return Comparison(
            error=self.error,
            worst=self.probes[worst],
            derived=float(self.derived[worst]),
            measured=float(self.measured[worst]),
            settled=self.settled,
        )


def _settle(
    points: Points, probe: Probe, share: float, tolerance: float
) -> tuple[float, float, bool]:
    """Return both slopes where they first agree or surely do not, and whether that was anywhere.

    Agreement is not met by chance, so it is believed of a slope that rounding has made uncertain,
    but not on a kink.
    """
    derived = measured = math.nan
    for point in points.iter_points():
        derived = point.derived(probe)
        line, scale = point.line(probe, points.objective), point.scale(probe.name)
        fine = quick(line, point.terms, scale, FINE)
        if _agree(derived, fine, share, tolerance):
            return derived, fine.value, True
        slope = careful(line, point.terms, scale)
        measured = slope.value
        surely_not = abs(derived - measured) > tolerance * share + slope.error
        if surely_not or _agree(derived, slope, share, tolerance):
            return derived, measured, True
    return derived, measured, False


def _agree(derived: float, slope: Slope, share: float, tolerance: float) -> bool:
    return abs(derived - slope.value) <= tolerance * share and slope.error <= _KINK * share
