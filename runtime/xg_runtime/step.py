"""One step of training, and evaluation: what happens between two lines of the log."""

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from xg_runtime.batches import Source
from xg_runtime.errors import InputError, NonFiniteError
from xg_runtime.log import Record
from xg_runtime.module import Array, Arrays, Module, Saved
from xg_runtime.nonfinite import first_broken, first_nonfinite
from xg_runtime.norm import clip
from xg_runtime.optim import Optimizer
from xg_runtime.random import fold
from xg_runtime.schedule import Schedule
from xg_runtime.splitting import WHOLE, Split
from xg_runtime.world import SINGLE_DEVICE, World


class Accuracy(Protocol):
    """How many outputs are right, for tasks where that can be counted."""

    @property
    def chances(self) -> Mapping[str, float]:
        """Accuracies to compare with, by name: lines across the curve."""
        ...

    def right(self, outputs: Arrays, inputs: Arrays) -> tuple[int, int]:
        """Return how many outputs of a batch are right, and of how many."""
        ...


@dataclass(frozen=True)
class Stepper:
    """A module, its data, and the rule that changes its parameters; `loss` names the output.

    Of many ranks each has a stepper: parameters, slots and batches are then this rank's parts.
    """

    module: Module
    source: Source
    optimizer: Optimizer
    schedule: Schedule
    loss: str
    limit: float | None  # of the global gradient norm
    seed: int
    accuracy: Accuracy | None = None  # the other results of evaluation
    world: World = SINGLE_DEVICE
    split: Split = WHOLE
    frozen: Collection[str] = ()  # parameters that learn nothing

    def step(self, params: Arrays, slots: Arrays, step: int) -> Record:
        """Do step `step` (from 0) in place; return its record, numbered from 1.

        Raises NonFiniteError, before anything has changed.
        """
        with np.errstate(all="ignore"):  # every step asks whether all is finite
            loss, gradients = self._gradients(params, step)
            norm = self._finite_norm(gradients, step + 1)
            if self.limit is not None:
                gradients = clip(gradients, norm, self.limit)
            rate = self.schedule.rate(step)
            learning = {name: params[name] for name in gradients}
            self.optimizer.update(learning, gradients, slots, rate, step)
        return {"step": step + 1, "loss": loss, "rate": rate, "norm": norm}

    def _gradients(self, params: Arrays, step: int) -> tuple[float, Arrays]:
        """Loss and gradients of a batch, summed over its parts.

        Sums over ranks may be deferred until the last part (`World.holding`).
        """
        parts = list(self.split.parts(self.source.batch(step)))
        total = 0.0
        gradients: Arrays = {}
        held: dict[str, Any] = {}
        for place, (whole, weight) in enumerate(parts):
            seed = fold(self.seed, "dropout", step)
            seed = fold(seed, "part", place) if place else seed
            inputs = self.world.part(whole)
            outputs, saved = self.module.forward(params, inputs, seed=seed)
            total += weight * self._finite_loss(params, inputs, outputs, saved, step + 1)
            d_outputs = {self.loss: np.full_like(outputs[self.loss], weight)}
            with self.world.holding(held, is_last=place + 1 == len(parts)):
                arrays = self.module.backward(params, saved, d_outputs)
            learning = [name for name in params if name not in self.frozen]
            gradients = {n: gradients[n] + arrays[n] if place else arrays[n] for n in learning}
        return total, gradients

    def evaluate(self, params: Arrays, step: int) -> Record | None:
        """Return the record of the mean validation loss, dropout off; None without such data."""
        losses: list[float] = []
        right = count = 0
        with np.errstate(all="ignore"):
            for whole in self.source.validation():
                inputs = self.world.part(whole)
                outputs, saved = self.module.forward(params, inputs)
                losses.append(self._finite_loss(params, inputs, outputs, saved, step))
                if self.accuracy is not None:
                    agreed, asked = self.accuracy.right(self.world.whole(outputs), whole)
                    right, count = right + agreed, count + asked
        if not losses:
            return None
        told = {"accuracy": right / count} if count else {}
        return {"step": step, "validation": math.fsum(losses) / len(losses), **told}

    def _finite_loss(
        self, params: Arrays, inputs: Arrays, outputs: Arrays, saved: Saved, step: int
    ) -> float:
        loss = _scalar(outputs, self.loss)
        if not math.isfinite(loss):  # on every rank: a loss is the same everywhere
            tensor = self.world.first(*first_nonfinite({**params, **inputs}))
            tensor = tensor or self.world.first(*first_broken(saved)) or self.loss
            message = f"{self.loss} is {loss}; the first tensor that is not finite is {tensor}"
            raise NonFiniteError(message, tensor, step)
        return loss

    def _finite_norm(self, gradients: Arrays, step: int) -> float:
        norm = math.sqrt(self.world.squares(gradients))
        if not math.isfinite(norm):
            tensor = self.world.first(*first_nonfinite(gradients))
            tensor = tensor or max(gradients, key=lambda n: _size(gradients[n]))
            message = f"the norm of the gradients is {norm}; the first of them that is not finite"
            raise NonFiniteError(f"{message} is that of {tensor}", tensor, step)
        return norm


def _scalar(outputs: Arrays, name: str) -> float:
    if name not in outputs:
        raise InputError(f"the program has no output {name}; it has {', '.join(outputs)}")
    if np.shape(outputs[name]) != ():
        raise InputError(f"{name} has shape {list(np.shape(outputs[name]))}, a loss has none")
    return float(outputs[name])


def _size(array: Array) -> float:
    return float(np.abs(array).max(initial=0))
