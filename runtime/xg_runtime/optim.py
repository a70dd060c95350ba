"""Optimizers: SGD with momentum, Adam, AdamW. They change parameters in place.

    optimizer = AdamW(weight_decay=0.01)
    slots = optimizer.slots(params)                          # flat: "m/W_Q", "v/W_Q"
    optimizer.update(params, gradients, slots, rate, step)   # step counts from 0

Parameters, gradients and slots are dicts of arrays of one float type; a slot is keyed by its kind
and the parameter's name, so that a checkpoint holds it as it is. Gradients are never written to:
two names may share one array.

The formulas are torch's, because results are compared with torch and papers leave details open.
Gradients are never written to: a residual hands one array to two names.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias

import numpy as np

from xg_runtime.module import Array, Arrays

# The norm over all gradients, and clipping by it (Pascanu, Mikolov, Bengio 2013).


def global_norm(arrays: Arrays) -> float:
    """Return the Euclidean norm over every element of every array, summed in float64."""
    return math.sqrt(squares(arrays))


def squares(arrays: Arrays) -> float:
    """Return the sum of the squares of every element of every array."""
    return math.fsum(_squares(array) for array in arrays.values())


def clip(gradients: Arrays, norm: float, limit: float) -> Arrays:
    """Return `gradients`, scaled to a global norm of `limit` where theirs, `norm`, is above it.

    The 1e-6 is torch's, so that the two agree in every digit.
    """
    factor = limit / (norm + 1e-6)
    if not factor < 1:
        return gradients
    return {name: array * factor for name, array in gradients.items()}


def _squares(array: Array) -> float:
    flat = array.ravel()
    with np.errstate(over="ignore"):
        total = float(np.dot(flat, flat))
    if math.isfinite(total):
        return total
    wide = flat.astype(np.float64)  # float32 overflows from 2e19 on, long before its values do
    return float(np.dot(wide, wide))


# Learning rate over time: linear warm-up, then constant, linear or cosine decay.
#
#     Schedule(kind="cosine", peak=1e-3, warmup=100, steps=1000, final=0.1).rate(step)
#
# `step` counts from 0. The warm-up rises in equal parts to the peak, which step `warmup` has; the
# decay ends at `final · peak`, which the first step after the last would have
# (cosine: Loshchilov, Hutter, "SGDR", 2017, one period).


Kind: TypeAlias = Literal["constant", "linear", "cosine"]


@dataclass(frozen=True)
class Schedule:
    """The learning rate of each step; `final` is a part of `peak`."""

    kind: Kind
    peak: float
    steps: int
    warmup: int = 0
    final: float = 0.0

    def rate(self, step: int) -> float:
        """Return the learning rate of `step`."""
        if step < self.warmup:
            return self.peak * (step + 1) / (self.warmup + 1)
        return self.peak * (self.final + (1 - self.final) * self._remaining_decay(step))

    def _remaining_decay(self, step: int) -> float:
        """Return how much of the decay is still to come, from 1 to 0."""
        if self.kind == "constant":
            return 1.0
        passed = min((step - self.warmup) / max(self.steps - self.warmup, 1), 1.0)
        return 1 - passed if self.kind == "linear" else (1 + math.cos(math.pi * passed)) / 2


class Optimizer(Protocol):
    """A rule for one step."""

    def slots(self, params: Arrays) -> Arrays:
        """Return the optimizer's own state before the first step."""
        ...

    def update(
        self, params: Arrays, gradients: Arrays, slots: Arrays, rate: float, step: int
    ) -> None:
        """Change `params` and `slots` by one step at learning rate `rate`."""
        ...


@dataclass(frozen=True)
class SGD:
    """v ← μ v + g, p ← p - rate · v (Sutskever et al. 2013, without dampening)."""

    momentum: float = 0.0

    def slots(self, params: Arrays) -> Arrays:
        """Return zero velocities, or nothing without momentum."""
        return _zeros(params, "velocity") if self.momentum else {}

    def update(
        self, params: Arrays, gradients: Arrays, slots: Arrays, rate: float, step: int
    ) -> None:
        """Change parameters and velocities."""
        del step
        for name, param in params.items():
            change = gradients[name]
            if self.momentum:
                velocity = slots[f"velocity/{name}"]
                velocity *= self.momentum
                velocity += change
                change = velocity
            param -= rate * change


@dataclass(frozen=True)
class Adam:
    """Kingma, Ba, "Adam", 2015, algorithm 1."""

    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-8

    def slots(self, params: Arrays) -> Arrays:
        """Return zero first and second moments, `m` and `v`."""
        return _zeros(params, "m") | _zeros(params, "v")

    def update(
        self, params: Arrays, gradients: Arrays, slots: Arrays, rate: float, step: int
    ) -> None:
        """Change parameters and moments."""
        correct_m = 1 - self.beta1 ** (step + 1)
        correct_v = 1 - self.beta2 ** (step + 1)
        for name, param in params.items():
            g, m, v = gradients[name], slots[f"m/{name}"], slots[f"v/{name}"]
            m *= self.beta1
            m += (1 - self.beta1) * g
            v *= self.beta2
            v += (1 - self.beta2) * (g * g)
            param -= rate * _adam_step(m / correct_m, v / correct_v, self.epsilon)


@dataclass(frozen=True)
class AdamW(Adam):
    """Loshchilov, Hutter, "Decoupled weight decay regularization", 2019.

    Biases, scales and shifts (axes < 2) do not decay: they are few and their size means something.
    """

    weight_decay: float = 0.01

    def update(
        self, params: Arrays, gradients: Arrays, slots: Arrays, rate: float, step: int
    ) -> None:
        """Shrink the matrices, then step as Adam does."""
        for param in params.values():
            if param.ndim >= 2:
                param *= 1 - rate * self.weight_decay
        super().update(params, gradients, slots, rate, step)


def _adam_step(m: Array, v: Array, epsilon: float) -> Array:
    return m / (np.sqrt(v) + epsilon)


def _zeros(params: Arrays, kind: str) -> Arrays:
    return {f"{kind}/{name}": np.zeros_like(param) for name, param in params.items()}
