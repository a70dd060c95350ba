"""Measure gradients by finite differences: at a point, along lines, and compared with others.

objective = Objective.random(function, values, seed)   f = Σ cotangents · outputs
point = Point.at(values, objective, gradient)          values and what backward derives there
point.line(Coordinate("W", 7), objective)              f along one element
point.line(Direction("W", 0, seed), objective)         f along a random direction
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Final, NamedTuple, TypeAlias

import numpy as np

from xg_runtime.errors import RunError
from xg_runtime.module import Array, Arrays, is_float
from xg_runtime.optim import global_norm
from xg_runtime.random import fold

# When two gradients agree.
#
# a and b agree when ‖a - b‖ ≤ tol · (max(‖a‖, ‖b‖) + ‖all gradients‖ / 100), so that a part in
# tol is seen in every gradient that is not tiny beside the others.


FLOOR: Final = 1e-2  # the part of ‖all gradients‖ that counts for each
PART: Final = 2**18  # numbers of large arrays that are compared at once

# The tol of every proof, in float64.
DIFFERENCES: Final = 1e-6  # a derived gradient and finite differences
SAME_PROGRAM: Final = 1e-10  # one program computed twice: by a backend, the interpreter, ranks
OTHER_PROGRAM: Final = 1e-8  # an imported program and the model that it was made from
OTHER_FLOAT32: Final = 1e-5  # where that model has a table in float32 that the program has exactly


def scale(a: Array, b: Array, total: float) -> float:
    """Return what ‖a - b‖ is measured by; `total` is the norm over all gradients."""
    return _scale(_norm(a), _norm(b), total)


class Apart(NamedTuple):
    """How far two gradients are from each other, and how long they are."""

    distance: float
    first: float
    second: float

    @classmethod
    def of(cls, a: Array, b: Array) -> Apart:
        """Measure two arrays."""
        return cls(_distance(a, b), _norm(a), _norm(b))

    def error(self, total: float) -> float:
        """Return the number that must be at most tol: NaN, which never is, where one has one."""
        return self.distance / _scale(self.first, self.second, total) if self.distance else 0.0


def error(a: Array, b: Array, total: float) -> float:
    """Return `Apart.error` of two arrays."""
    return Apart.of(a, b).error(total)


def _distance(a: Array, b: Array) -> float:
    """‖a - b‖; of large arrays row by row, since memory takes longer to get than to read."""
    if a.size <= PART or a.shape != b.shape:
        return _norm(a - b)
    rows = max(1, PART * len(a) // a.size)
    parts = (slice(first, first + rows) for first in range(0, len(a), rows))
    return _norm(np.array([_norm(a[part] - b[part]) for part in parts]))


def _scale(first: float, second: float, total: float) -> float:
    return max(first, second) + FLOOR * total


def _norm(array: Array) -> float:
    return float(np.linalg.norm(np.ravel(array, order="K")))  # a transposed one is not copied


# Finite differences of one number along a line, with an estimate of their own error.
#
#     quick(line, here, scale, QUICK)    two evaluations, good to about 9 digits where f is smooth
#     quick(line, here, scale, FINE)     good to about 7; kinks seldom fall within so small a step
#     careful(line, here, scale)         a ladder of steps, Richardson extrapolation
#
# A `line` maps an offset t to the terms of f(x + t·v): a vector whose sum is the number.
# Differences are taken term by term before summing, so that terms the offset does not reach cancel
# exactly. `here` is line(0); `scale` is about how large x is, a power of two: steps are then exact.
#
# On a kink central differences agree, at every step, on a number that means nothing. There the jump
# between the slopes on both sides does not shrink with the step, and the error is that jump.


Line: TypeAlias = Callable[[float], Array]

# Balances truncation, h²/6, with rounding, ε/h, in favor of less rounding.
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

    center: float
    jump: float


def quick(line: Line, here: Array, scale: float, step: float) -> Slope:
    """Return the central difference at `scale` · `step`; its error is the jump there, h · f″."""
    difference = _difference(line, here, scale * step)
    return Slope(difference.center, abs(difference.jump))


def careful(line: Line, here: Array, scale: float) -> Slope:
    """Return the derivative at the step where its estimates agree best.

    Two steps h and h/4 give one estimate without the h² term; two neighboring estimates give the
    error, unless the jump, extrapolated to h = 0, is larger.
    """
    noise = 8 * _EPSILON * float(np.linalg.norm(here))
    steps = [scale * step for step in _STEPS]
    differences = [_difference(line, here, step) for step in steps]
    without_h2 = [_extrapolate(a.center, b.center, _RATIO**2) for a, b in pairwise(differences)]
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
        center=float((ahead - behind).sum()) / (2 * step),
        jump=float(((ahead - here) - (here - behind)).sum()) / step,
    )


def _extrapolate(coarse: float, fine: float, ratio: float) -> float:
    """Return the value at step 0 of two values whose leading errors have this `ratio`."""
    return (ratio * fine - coarse) / (ratio - 1)


Function: TypeAlias = Callable[[Arrays], Arrays]  # values -> outputs
Gradient: TypeAlias = Callable[[Arrays, Arrays], Arrays]  # values, d_outputs -> gradients

MOVE: Final = 2.0**-4  # of a tensor's scale: far from a kink, near enough to be as good a test
SHAKE: Final = 2.0**-44  # of a tensor's scale: it changes what rounding makes, and nothing else


@dataclass(frozen=True)
class Objective:
    """The number f = Σ cotangents · outputs, given as its terms."""

    function: Function
    cotangents: Arrays

    @staticmethod
    def random(function: Function, values: Arrays, seed: int) -> Objective:
        """Draw normal cotangents for all float outputs; 0 where one is ±∞, as under a mask.

        Raises RunError when an output is NaN.
        """
        cotangents: Arrays = {}
        with np.errstate(all="ignore"):
            outputs = function(values)
        for name, output in outputs.items():
            if not is_float(output):
                continue
            if np.isnan(output).any():
                raise RunError(f"{name} is not a number (NaN) where gradients were to be tested")
            drawn = _normal(seed, "cotangent", name, np.shape(output))
            cotangents[name] = np.where(np.isinf(output), 0.0, drawn)
        return Objective(function, cotangents)

    def terms(self, values: Arrays) -> Array:
        """Return the terms of f [N], in new memory even where an output is a view of a value."""
        with np.errstate(all="ignore"):
            outputs = self.function(values)
            terms = [
                np.where(weight == 0, 0.0, np.multiply(outputs[name], weight)).ravel()
                for name, weight in self.cotangents.items()
            ]
        return np.concatenate(terms)


@dataclass(frozen=True)
class Coordinate:
    """One element of a tensor, by its place in memory order."""

    name: str
    place: int


@dataclass(frozen=True)
class Direction:
    """The `number`-th random direction of a tensor: an independent normal for each element."""

    name: str
    number: int
    seed: int

    def vector(self, shape: tuple[int, ...]) -> Array:
        """Return the direction, the same at every call."""
        return _normal(self.seed, f"direction {self.number}", self.name, shape)


Probe: TypeAlias = Coordinate | Direction


@dataclass(frozen=True)
class Point:
    """Float64 values, the gradients derived there and the terms of f; the values are its own."""

    values: Arrays
    gradients: Arrays
    terms: Array

    @staticmethod
    def at(values: Arrays, objective: Objective, gradient: Gradient) -> Point:
        """Copy `values` and derive the gradients there."""
        own = {name: np.array(value, order="C") for name, value in values.items()}
        with np.errstate(all="ignore"):
            gradients = gradient(own, objective.cotangents)
        arrays = {name: np.array(gradient) for name, gradient in gradients.items()}
        return Point(own, arrays, objective.terms(own))

    def moved(
        self, objective: Objective, gradient: Gradient, seed: int, step: float = MOVE
    ) -> Point:
        """Return a point nearby, in a direction that depends on `seed`."""
        values = {
            name: value + step * self.scale(name) * _normal(seed, "move", name, value.shape)
            if is_float(value)
            else value
            for name, value in self.values.items()
        }
        return Point.at(values, objective, gradient)

    @cached_property
    def norm(self) -> float:
        """The norm over all gradients, those that are not finite left out."""
        whole = {name: each for name, each in self.gradients.items() if np.isfinite(each).all()}
        return global_norm(whole)

    def scale(self, name: str) -> float:
        """Return about how large the elements of a tensor are; 1 where all are 0."""
        value = self.values[name]
        return power_of_two(global_norm({name: value}) / math.sqrt(max(value.size, 1)))

    def derived(self, probe: Probe) -> float:
        """Return the slope along `probe` as the gradients have it."""
        gradient = self.gradients[probe.name]
        if isinstance(probe, Coordinate):
            return float(gradient.ravel()[probe.place])
        return float((gradient * probe.vector(gradient.shape)).sum())

    def line(self, probe: Probe, objective: Objective) -> Line:
        """Return the terms of f as a function of an offset along `probe`."""
        value = self.values[probe.name]
        flat = value.reshape(-1)  # a view: values are laid out in order
        at = slice(probe.place, probe.place + 1) if isinstance(probe, Coordinate) else slice(None)
        along = 1.0 if isinstance(probe, Coordinate) else probe.vector(value.shape).ravel()
        here = flat[at].copy()

        def terms(offset: float) -> Array:
            flat[at] = here + offset * along
            try:
                return objective.terms(self.values)
            finally:
                flat[at] = here

        return terms


def _normal(seed: int, purpose: str, name: str, shape: tuple[int, ...]) -> Array:
    return np.random.default_rng(fold(seed, purpose, name)).standard_normal(shape)


# Comparison of derived with measured slopes along a group of lines.
#
# Quick differences that agree decide a group. Otherwise its worst lines are measured again with
# care, one after the other, until the group agrees or a difference is proven; and so is each line
# that seems to be on a kink (ReLU, max), agree or not. Where a kink or rounding hides the slope it
# is measured at points nearby; no line is passed over.


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
        return error(self.derived, self.measured, self.total)

    @property
    def scale(self) -> float:
        """The norm that differences are relative to."""
        return scale(self.derived, self.measured, self.total)

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
