"""One step of training, and evaluation: what happens between two lines of the log."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, Final, Protocol, cast

import numpy as np
from numpy.typing import DTypeLike

from xg_runtime.batches import Source
from xg_runtime.errors import InputError, NonFiniteError
from xg_runtime.log import Record
from xg_runtime.module import Array, Arrays, Module, Saved, in_type, is_float, move_of
from xg_runtime.optim import Optimizer, Schedule, clip
from xg_runtime.random import fold
from xg_runtime.world import SINGLE_DEVICE, World

# Finding the first tensor that is not finite, to name it in an error.


def first_nonfinite(arrays: Arrays) -> tuple[int, str]:
    """Return place and name of the first array with a NaN or an infinity; (0, "") for none."""
    for place, (name, array) in enumerate(arrays.items()):
        if is_float(array) and not np.isfinite(array).all():
            return place, name
    return 0, ""


def first_broken(saved: Saved) -> tuple[int, str]:
    """Return place and path of the first array in `saved` with a NaN or +∞; -∞ is a mask's."""
    for place, (name, array) in enumerate(arrays_in(saved)):
        if is_float(array) and bool((np.isnan(array) | np.isposinf(array)).any()):
            return place, name
    return 0, ""


def arrays_in(saved: Saved) -> Iterator[tuple[str, Array]]:
    """Return every array in nested dicts, sequences and records with its path, in order."""
    pending: list[tuple[str, object]] = [("", saved)]
    while pending:
        path, value = pending.pop()
        if isinstance(value, np.ndarray):
            yield path, cast(Array, value)
        else:
            pending.extend(
                (f"{path}.{name}" if path else name, part) for name, part in reversed(_parts(value))
            )


def _parts(value: object) -> list[tuple[str, object]]:
    if is_dataclass(value) and not isinstance(value, type):
        return [(part.name, getattr(value, part.name)) for part in fields(value)]
    if hasattr(value, "_asdict"):  # a named tuple
        value = cast(Any, value)._asdict()
    if isinstance(value, Mapping):
        return [(str(name), part) for name, part in cast("Mapping[object, object]", value).items()]
    if isinstance(value, (tuple, list)):
        return [(str(place), part) for place, part in enumerate(cast("list[object]", value))]
    return []


# A batch computed in several parts, one after the other: less memory for the same step.
#
#     split = Split(4, frozenset({"ids", "t"}))
#     for part, weight in split.parts(batch): ...     a quarter of the rows each, and its share
#
# The loss of the batch is the sum of those of its parts, each times its weight; so are the
# gradients. Of a mean the weights are shares of the counted rows, of a sum they are 1.


@dataclass(frozen=True)
class Split:
    """In how many parts; `rows` are the inputs that have rows along axis 0.

    `is_mean` says what the loss is of its terms; of `targets` the id `ignored` does not count.
    """

    count: int = 1
    rows: frozenset[str] = frozenset()
    is_mean: bool = True
    targets: str = ""
    ignored: int | None = None

    def parts(self, batch: Arrays) -> Iterator[tuple[Arrays, float]]:
        """The parts and their weights; raises InputError where they would not be equal."""
        if self.count == 1:
            yield batch, 1.0
            return
        cut = {name: self._cut(name, batch) for name in batch if name in self.rows}
        parts = [{**batch, **{n: c[i] for n, c in cut.items()}} for i in range(self.count)]
        weights = [self._weight(part) if self.is_mean else 1.0 for part in parts]
        total = sum(weights) if self.is_mean else 1.0
        for part, weight in zip(parts, weights, strict=True):
            if weight or not total:  # a part in which nothing counts has no loss
                yield part, weight / (total or 1.0)

    def _cut(self, name: str, batch: Arrays) -> list[Array]:
        """The rows of one array, in equal parts."""
        array = batch[name]
        if len(array) % self.count:
            raise InputError(
                f"a batch of {len(array)} rows cannot be split into {self.count} equal parts"
            )
        return list(np.split(array, self.count))

    def _weight(self, part: Arrays) -> float:
        """How much of a part counts."""
        if self.ignored is None:
            return 1.0
        return float(np.count_nonzero(part[self.targets] != self.ignored))


WHOLE: Final = Split()


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
    """Run this rank's stages of a pipeline: `xg_runtime.ranks.pipeline`."""

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
