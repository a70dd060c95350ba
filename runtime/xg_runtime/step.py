"""One step of training, and evaluation: what happens between two lines of the log."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import DTypeLike

from xg_runtime.batches import Source
from xg_runtime.errors import InputError, NonFiniteError
from xg_runtime.log import Record
from xg_runtime.module import Array, Arrays, Module, Saved, in_type, move_of
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


class Stages(Protocol):
    """Run this rank's stages of a pipeline: `xg_runtime.ranks.stage_training`."""

    def init(self, seed: int = 0, dtype: DTypeLike = np.float32) -> Arrays:
        """Return the parameters of all stages of this rank."""
        ...

    def gradients(
        self, params: Arrays, parts: Sequence[tuple[Arrays, float, int]], loss: str, world: World
    ) -> tuple[float, Arrays]:
        """Loss and gradients of a batch in parts: each its inputs, its weight and its seed."""
        ...

    def loss(self, params: Arrays, inputs: Arrays, loss: str) -> float:
        """The loss of a batch, dropout off."""
        ...


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a batch, before ranks divide it: its weight in the sum, and its seed.

    Inside of `summing`, sums over ranks may wait for later parts (`World.holding`).
    """

    whole: Arrays
    weight: float
    seed: int
    summing: AbstractContextManager[None]


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
    stages: Stages | None = None  # of a pipeline, of which this rank is one
    dtype: DTypeLike | None = None  # of floats in batches, if not their own

    def step(self, params: Arrays, slots: Arrays, step: int) -> Record:
        """Do step `step` (from 0) in place; return its record, numbered from 1.

        Raises NonFiniteError, before anything has changed.
        """
        with np.errstate(all="ignore"):  # every step asks whether all is finite
            loss, gradients, moved = self._gradients(params, step)
            norm = self._finite_norm(gradients, step + 1)
            if self.limit is not None:
                gradients = clip(gradients, norm, self.limit)
            rate = self.schedule.rate(step)
            learning = {name: params[name] for name in gradients}
            self.optimizer.update(learning, gradients, slots, rate, step)
            for name, statistic in moved.items():
                params[name][...] = statistic
        return {"step": step + 1, "loss": loss, "rate": rate, "norm": norm}

    def gradients(self, params: Arrays, step: int) -> tuple[float, Arrays]:
        """Loss and gradients of the batch of step `step`; raises NonFiniteError."""
        loss, gradients, _ = self._gradients(params, step)
        self._finite_norm(gradients, step + 1)
        return loss, gradients

    def settle(self) -> None:
        """Write parameters and slots into the arrays that `step` was given: they are there."""

    def _gradients(self, params: Arrays, step: int) -> tuple[float, Arrays, Arrays]:
        """Loss and gradients of a batch, summed over its parts, and statistics that it moves.

        Sums over ranks may be deferred until the last part (`World.holding`).
        """
        parts = list(self.split.parts(in_type(self.source.batch(step), self.dtype)))
        if self.stages is not None:
            return *self._in_stages(self.stages, params, parts, step), {}
        total = 0.0
        moved: Arrays = {}
        gradients: Arrays = {}
        held: dict[str, Any] = {}
        params = self.world.held(params)
        for place, (whole, weight) in enumerate(parts):
            seed = self._seed(step, place)
            summing = self.world.holding(held, is_last=place + 1 == len(parts))
            part = Part(whole, weight, seed, summing)
            loss, arrays, moved = self._part(params, part, moved, step)
            total += weight * loss
            learning = [name for name in params if name not in self.frozen]
            gradients = {n: gradients[n] + arrays[n] if place else arrays[n] for n in learning}
        return total, gradients, moved

    def _part(
        self, params: Arrays, part: Part, moved: Arrays, step: int
    ) -> tuple[float, Arrays, Arrays]:
        """Loss, gradients and moved statistics of a part of a batch."""
        inputs = self.world.part(part.whole)
        outputs, *kept = self.module.forward(params, inputs, seed=part.seed)
        loss = self._finite_loss(params, inputs, outputs, kept[0], step + 1)
        move = move_of(self.module)
        moved |= move({**params, **moved}, kept[0]) if move else {}
        d_outputs = {self.loss: np.full_like(outputs[self.loss], part.weight)}
        with part.summing:
            return loss, self.module.backward(params, kept.pop(), d_outputs), moved

    def _seed(self, step: int, part: int) -> int:
        """The seed of a part of a batch."""
        seed = fold(self.seed, "dropout", step)
        return fold(seed, "part", part) if part else seed

    def _in_stages(
        self, stages: Stages, params: Arrays, parts: list[tuple[Arrays, float]], step: int
    ) -> tuple[float, Arrays]:
        """Loss and gradients of a batch, whose parts go through a pipeline."""
        cells = [
            (self.world.part(whole), weight, self._seed(step, place))
            for place, (whole, weight) in enumerate(parts)
        ]
        total, gradients = stages.gradients(params, cells, self.loss, self.world)
        self._check(total, {**params, **cells[0][0]}, step + 1)
        return total, gradients

    def _check(self, loss: float, arrays: Arrays, step: int) -> None:
        """Raise NonFiniteError for the loss of a pipeline, naming what goes into it."""
        if not math.isfinite(loss):
            found = self.world.first(*first_nonfinite(arrays)) or self.loss
            message = f"{self.loss} is {loss}; the first tensor that is not finite is {found}"
            raise NonFiniteError(message, found, step)

    def evaluate(self, params: Arrays, step: int) -> Record | None:
        """Return the record of the mean validation loss, dropout off; None without such data."""
        losses: list[float] = []
        right = count = 0
        params = self.world.held(params)
        with np.errstate(all="ignore"):
            for batch in self.source.validation():
                whole = in_type(batch, self.dtype)
                if self.stages is not None:
                    inputs = self.world.part(whole)
                    losses.append(self.stages.loss(params, inputs, self.loss))
                    self._check(losses[-1], {**params, **inputs}, step)
                    continue
                loss, outputs = self._evaluate_batch(params, whole, step)
                losses.append(loss)
                if self.accuracy is not None:
                    agreed, asked = self.accuracy.right(self.world.whole(outputs), whole)
                    right, count = right + agreed, count + asked
        if not losses:
            return None
        told = {"accuracy": right / count} if count else {}
        return {"step": step, "validation": math.fsum(losses) / len(losses), **told}

    def _evaluate_batch(self, params: Arrays, whole: Arrays, step: int) -> tuple[float, Arrays]:
        """The loss of a batch, dropout off, and this rank's part of the outputs."""
        inputs = self.world.part(whole)
        outputs, saved = self.module.forward(params, inputs)
        return self._finite_loss(params, inputs, outputs, saved, step), outputs

    def _finite_loss(
        self, params: Arrays, inputs: Arrays, outputs: Arrays, saved: Saved, step: int
    ) -> float:
        loss = float(loss_in(outputs, self.loss))
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


def loss_in(outputs: Mapping[str, Any], name: str) -> Any:  # noqa: ANN401 - an array or a tensor
    """Return the loss among outputs; raises InputError if it is missing or not a scalar."""
    if name not in outputs:
        raise InputError(f"the program has no output {name}; it has {', '.join(outputs)}")
    shape = list(outputs[name].shape)
    if shape:
        raise InputError(f"the loss {name} must be a scalar; found the shape {shape}")
    return outputs[name]


def _size(array: Array) -> float:
    return float(np.abs(array).max(initial=0))
