"""One step of training, and evaluation: what happens between two lines of the log."""

import math
from dataclasses import dataclass

import numpy as np

from xg_runtime.accuracy import Accuracy
from xg_runtime.batches import Source
from xg_runtime.errors import InputError, NonFiniteError
from xg_runtime.log import Record
from xg_runtime.module import Array, Arrays, Module, Saved
from xg_runtime.nonfinite import first_broken, first_nonfinite
from xg_runtime.norm import clip
from xg_runtime.optim import Optimizer
from xg_runtime.random import fold
from xg_runtime.schedule import Schedule
from xg_runtime.world import ALONE, World


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
    accuracy: Accuracy | None = None  # what evaluation tells besides
    world: World = ALONE

    def step(self, params: Arrays, slots: Arrays, step: int) -> Record:
        """Do step `step` (from 0) in place; return its record, numbered from 1.

        Raises NonFiniteError, before anything has changed.
        """
        with np.errstate(all="ignore"):  # every step asks whether all is finite
            inputs = self.world.part(self.source.batch(step))
            seed = fold(self.seed, "dropout", step)
            outputs, saved = self.module.forward(params, inputs, seed=seed)
            loss = self._finite_loss(params, inputs, outputs, saved, step + 1)
            d_outputs = {self.loss: np.ones_like(outputs[self.loss])}
            found = self.module.backward(params, saved, d_outputs)
            gradients = {name: found[name] for name in params}
            norm = self._finite_norm(gradients, step + 1)
            if self.limit is not None:
                gradients = clip(gradients, norm, self.limit)
            rate = self.schedule.rate(step)
            self.optimizer.update(params, gradients, slots, rate, step)
        return {"step": step + 1, "loss": loss, "rate": rate, "norm": norm}

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
            found = self.world.first(*first_nonfinite({**params, **inputs}))
            found = found or self.world.first(*first_broken(saved)) or self.loss
            message = f"{self.loss} is {loss}; the first tensor that is not finite is {found}"
            raise NonFiniteError(message, found, step)
        return loss

    def _finite_norm(self, gradients: Arrays, step: int) -> float:
        norm = math.sqrt(self.world.squares(gradients))
        if not math.isfinite(norm):
            found = self.world.first(*first_nonfinite(gradients))
            found = found or max(gradients, key=lambda n: _size(gradients[n]))
            message = f"the norm of the gradients is {norm}; the first of them that is not finite"
            raise NonFiniteError(f"{message} is that of {found}", found, step)
        return norm


def _scalar(outputs: Arrays, name: str) -> float:
    if name not in outputs:
        raise InputError(f"the program has no output {name}; it has {', '.join(outputs)}")
    if np.shape(outputs[name]) != ():
        raise InputError(f"{name} has shape {list(np.shape(outputs[name]))}, a loss has none")
    return float(outputs[name])


def _size(array: Array) -> float:
    return float(np.abs(array).max(initial=0))
