"""Where gradients are tested: a point, the number whose gradient it is, and lines through it.

objective = Objective.random(function, values, seed)   f = Σ cotangents · outputs
point = Point.at(values, objective, gradient)          values and what backward derives there
point.line(Coordinate("W", 7), objective)              f along one element
point.line(Direction("W", 0, seed), objective)         f along a random direction
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Final, TypeAlias

import numpy as np

from xg_runtime.errors import RunError
from xg_runtime.finite import Line, power_of_two
from xg_runtime.module import Array, Arrays, is_float
from xg_runtime.norm import global_norm
from xg_runtime.random import fold

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
    def random(function: Function, values: Arrays, seed: int) -> "Objective":
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
    def at(values: Arrays, objective: Objective, gradient: Gradient) -> "Point":
        """Copy `values` and derive the gradients there."""
        own = {name: np.array(value, order="C") for name, value in values.items()}
        with np.errstate(all="ignore"):
            gradients = gradient(own, objective.cotangents)
        arrays = {name: np.array(gradient) for name, gradient in gradients.items()}
        return Point(own, arrays, objective.terms(own))

    def moved(
        self, objective: Objective, gradient: Gradient, seed: int, step: float = MOVE
    ) -> "Point":
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
