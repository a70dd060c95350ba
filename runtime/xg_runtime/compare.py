"""Comparison of derived with measured slopes along a group of lines.

Quick differences that agree settle a group. Otherwise its worst lines are measured again with
care, one after the other, until the group agrees or a difference is proven. A line on a kink (ReLU,
max) or lost in rounding is measured again at points nearby; it is never passed over.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

import numpy as np

from xg_runtime import agreement
from xg_runtime.finite import careful, quick
from xg_runtime.module import Array
from xg_runtime.probe import Gradient, Objective, Point, Probe
from xg_runtime.random import fold

_MOVES: Final = 4


@dataclass
class Points:
    """The point of a check, and points nearby, made when they are asked for."""

    objective: Objective
    gradient: Gradient
    first: Point
    seed: int
    _nearby: list[Point] = field(default_factory=list[Point])

    @cached_property
    def size(self) -> float:
        """How large the terms of f are at the first point."""
        return float(np.linalg.norm(self.objective.terms(self.first.values)))

    def all(self) -> Iterator[Point]:
        """Return the first point, then those nearby."""
        yield self.first
        for number in range(_MOVES):
            if number == len(self._nearby):
                seed = fold(self.seed, "nearby", number)
                self._nearby.append(self.first.moved(self.objective, self.gradient, seed))
            yield self._nearby[number]


@dataclass(frozen=True)
class Comparison:
    """How far a group agrees, its worst line, and whether differences could tell."""

    error: float
    worst: Probe
    derived: float  # along the worst
    measured: float
    settled: bool


def compare(points: Points, probes: Sequence[Probe], total: float, tolerance: float) -> Comparison:
    """Compare along `probes`, at least one; `total` is the norm over all gradients."""
    derived, measured = _quick_slopes(points, probes)
    careful_ones: list[int] = []
    settled = True
    for place in _worst_first(derived, measured):
        if agreement.error(derived, measured, total) <= tolerance:
            break
        allowed = tolerance * agreement.scale(derived, measured, total)
        share = allowed / math.sqrt(len(probes))
        derived[place], measured[place], settled = _settle(points, probes[place], share)
        careful_ones.append(place)
        proven = np.linalg.norm((derived - measured)[careful_ones]) > allowed
        if proven or not settled:
            break
    worst = careful_ones[-1] if not settled else _worst_first(derived, measured)[0]
    return Comparison(
        error=agreement.error(derived, measured, total),
        worst=probes[worst],
        derived=float(derived[worst]),
        measured=float(measured[worst]),
        settled=settled,
    )


def _quick_slopes(points: Points, probes: Sequence[Probe]) -> tuple[Array, Array]:
    point = points.first
    derived = [point.derived(probe) for probe in probes]
    measured = [
        quick(point.line(probe, points.objective), point.scale(probe.name)) for probe in probes
    ]
    return np.array(derived), np.array(measured)


def _worst_first(derived: Array, measured: Array) -> list[int]:
    distance = np.nan_to_num(np.abs(derived - measured), nan=np.inf)
    return [int(place) for place in np.argsort(-distance, kind="stable")]


def _settle(points: Points, probe: Probe, share: float) -> tuple[float, float, bool]:
    """Return both slopes where they first agree or surely do not, and whether that was anywhere.

    `share` is how far they may be apart. Agreement needs no error bound: it is not met by chance.
    """
    derived = measured = math.nan
    for point in points.all():
        derived = point.derived(probe)
        slope = careful(point.line(probe, points.objective), point.scale(probe.name))
        measured = slope.value
        distance = abs(derived - measured)
        if distance <= share or distance > share + slope.error:
            return derived, measured, True
    return derived, measured, False
