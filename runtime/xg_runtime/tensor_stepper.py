"""A step of training whose parameters, moments and gradients stay on a device of torch.

    stepper = TensorStepper(module=OnArrays(generated, device="cuda"), source=source, …)

One read a step asks the device for the loss and the norms. Arrays are written back where a file or
a person needs them (`settle`): a checkpoint, the end. The optimizers are torch's, which do what
those of `xg_runtime.optim` do. Needs torch.

Parameters stay on the device, because GPT-2's arrays would be 1.5 GB to move in every step. One
read a step brings the loss and the norms.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
import torch

from xg_runtime.checkpoint.dcp import SLOTS
from xg_runtime.errors import NonFiniteError
from xg_runtime.log import Record
from xg_runtime.module import Arrays, move_of
from xg_runtime.optim import SGD, Adam, AdamW, Optimizer
from xg_runtime.step import Part, Stepper, loss_in
from xg_runtime.tensors import OnArrays, Tensors, as_arrays

_torch: Any = torch  # operations on many tensors at once have no public names


@dataclass
class _Residence:
    """The state of a run on a device, and the arrays of this process that it began as."""

    params: Arrays = field(default_factory=dict[str, Any])
    slots: Arrays = field(default_factory=dict[str, Any])
    tensors: Tensors = field(default_factory=dict[str, torch.Tensor])
    optimizer: torch.optim.Optimizer | None = None

    def enter(self, params: Arrays, device: str) -> Tensors:
        """Take parameters over, unless they are those that are there already."""
        if self.params is not params:
            self.params, self.optimizer = params, None
            self.tensors = {n: torch.tensor(array, device=device) for n, array in params.items()}
        return self.tensors

    def learn(self, rule: Optimizer, slots: Arrays, names: list[str], step: int) -> None:
        """Take an optimizer's state over before its first step here; `names` are what it moves."""
        if self.optimizer is not None:
            return
        self.slots = slots
        self.optimizer = optimizer_of(rule, [self.tensors[name] for name in names])
        for slot, array in slots.items():
            kind, _, name = slot.partition("/")
            tensor = self.tensors[name]
            state = self.optimizer.state[tensor]
            state[SLOTS[kind]] = torch.tensor(array, device=tensor.device)
            state["step"] = torch.tensor(float(step), device=tensor.device)

    def leave(self) -> None:
        """Write parameters and moments into the arrays."""
        for name, tensor in self.tensors.items():
            self.params[name][...] = tensor.numpy(force=True)
        for slot, array in self.slots.items():
            kind, _, name = slot.partition("/")
            assert self.optimizer is not None
            held = self.optimizer.state[self.tensors[name]][SLOTS[kind]]
            array[...] = held.numpy(force=True)


@dataclass(frozen=True)
class TensorStepper(Stepper):
    """A stepper for an `OnArrays` that has a device."""

    residence: _Residence = field(default_factory=_Residence)

    @property
    def _arrays(self) -> OnArrays:
        assert isinstance(self.module, OnArrays)
        return self.module

    def step(self, params: Arrays, slots: Arrays, step: int) -> Record:
        """Do step `step` (from 0) on the device; the arrays stay as they are until `settle`.

        Raises NonFiniteError, before anything has changed.
        """
        here = self.residence
        held = here.enter(params, self._arrays.device or "cpu")
        here.learn(self.optimizer, slots, [name for name in held if name not in self.frozen], step)
        loss, gradients, moved = self._gradients(cast(Arrays, held), step)
        grads = cast(Tensors, gradients)
        names, tensors = list(grads), list(grads.values())
        norms: list[torch.Tensor] = _torch._foreach_norm(tensors, 2, torch.float64)
        read: Any = torch.stack([torch.as_tensor(loss).double(), *norms])
        total, *lengths = cast("list[float]", read.tolist())  # all that this step waits for
        whole = {name: np.array([length]) for name, length in zip(names, lengths, strict=True)}
        norm = math.sqrt(self.world.squares(whole))
        if not (math.isfinite(total) and math.isfinite(norm)):
            self._explain(step)
        if self.limit is not None and self.limit / (norm + 1e-6) < 1:
            tensors = list(_torch._foreach_mul(tensors, self.limit / (norm + 1e-6)))
        rate = self.schedule.rate(step)
        self._update(dict(zip(names, tensors, strict=True)), rate)
        for name, statistic in cast(Tensors, moved).items():
            here.tensors[name].copy_(statistic)
        return {"step": step + 1, "loss": total, "rate": rate, "norm": norm}

    def evaluate(self, params: Arrays, step: int) -> Record | None:
        """Return the record of the mean validation loss, dropout off; None without such data."""
        held = self.residence.enter(params, self._arrays.device or "cpu")
        return super().evaluate(cast(Arrays, held), step)

    def settle(self) -> None:
        """Write what is on the device into the arrays that training began with."""
        self.residence.leave()

    def _part(self, params: Arrays, part: Part, moved: Arrays, step: int) -> tuple[Any, Any, Any]:
        """Loss and gradients of a part of a batch as tensors, which nothing is asked about yet."""
        module, arrays = self._arrays.module, self._arrays
        given: Any = params
        inputs = arrays.tensors(self.world.part(part.whole))
        with arrays.context():
            outputs, *kept = module.forward(given, inputs, seed=part.seed)
            loss: torch.Tensor = loss_in(outputs, self.loss)
            move: Callable[[Any, Any], Any] | None = move_of(module)
            moved |= move({**given, **moved}, kept[0]) if move else {}
            with part.summing:
                slope = {self.loss: torch.full_like(loss, part.weight)}
                found = module.backward(given, kept.pop(), slope)
        return (
            loss,
            {name: found[name].to(given[name].dtype) for name in given if name in found},
            moved,
        )

    def _evaluate_batch(self, params: Arrays, whole: Arrays, step: int) -> tuple[float, Arrays]:
        arrays = self._arrays
        given: Any = params
        with arrays.context():
            outputs, _ = arrays.module.forward(given, arrays.tensors(self.world.part(whole)))
        loss = float(loss_in(outputs, self.loss))
        if not math.isfinite(loss):
            self.settle()
            super()._evaluate_batch(self.residence.params, whole, step)
        return loss, as_arrays(outputs) if self.accuracy is not None else {}

    def _update(self, gradients: Tensors, rate: float) -> None:
        """Step as torch's optimizer does."""
        here = self.residence
        assert here.optimizer is not None
        for group in here.optimizer.param_groups:
            group["lr"] = rate
        for name, gradient in gradients.items():
            here.tensors[name].grad = gradient
        here.optimizer.step()
        here.optimizer.zero_grad(set_to_none=True)

    def _explain(self, step: int) -> None:
        """Raise NonFiniteError: the step once more on arrays, which finds the first tensor."""
        self.settle()
        own = {name: getattr(self, name) for name in Stepper.__dataclass_fields__}
        with np.errstate(all="ignore"):
            Stepper(**own).gradients(self.residence.params, step)
        raise NonFiniteError("a number is not finite, and was when computed again", "", step + 1)


def optimizer_of(rule: Optimizer, params: Sequence[torch.Tensor]) -> torch.optim.Optimizer:
    """Return torch's optimizer that does what `rule` does; its rate is set before each step."""
    fused = {"fused": True} if params[0].is_cuda else {}
    if isinstance(rule, SGD):
        return torch.optim.SGD(params, lr=0.0, momentum=rule.momentum, **fused)
    assert isinstance(rule, Adam)
    options: dict[str, Any] = {"betas": (rule.beta1, rule.beta2), "eps": rule.epsilon, **fused}
    if not isinstance(rule, AdamW):
        return torch.optim.Adam(params, lr=0.0, **options)
    matrices = [each for each in params if each.ndim >= 2]
    others = [each for each in params if each.ndim < 2]
    groups = [
        {"params": each, "weight_decay": decay}
        for each, decay in ((matrices, rule.weight_decay), (others, 0.0))
        if each
    ]
    return torch.optim.AdamW(groups, lr=0.0, **options)
