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

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from xg_runtime.module import Array, Arrays


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
