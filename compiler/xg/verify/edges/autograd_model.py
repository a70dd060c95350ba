"""The generated `torch.nn.Module` of a program, run under autograd. Needs torch."""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

from __future__ import annotations

import inspect
from collections.abc import Mapping
from types import ModuleType
from typing import Any

import numpy as np
import torch

from xg.diagnostics.lazy_dataclass import dataclass
from xg_runtime.module import Array, Arrays


@dataclass(frozen=True)
class AutogradModel:
    """The `Model` of a module as both passes on arrays.

    `sizes` are those that it may be given, `frozen` the inputs of which no gradient is taken.
    """

    module: ModuleType
    sizes: Mapping[str, int]
    frozen: frozenset[str]

    def forward(
        self, params: Arrays, inputs: Arrays, *, seed: int | None = None
    ) -> tuple[Arrays, tuple[Arrays, int | None]]:
        """Return outputs and what `backward` needs."""
        return self._both(params, inputs, {}, seed)[0], (inputs, seed)

    def backward(
        self, params: Arrays, saved: tuple[Arrays, int | None], d_outputs: Arrays
    ) -> Arrays:
        """Return the gradients that autograd finds."""
        inputs, seed = saved
        return self._both(params, inputs, d_outputs, seed)[1]

    def _both(
        self, params: Arrays, inputs: Arrays, cotangents: Arrays, seed: int | None
    ) -> tuple[Arrays, Arrays]:
        wanted = inspect.signature(self.module.init).parameters
        sizes = {name: n for name, n in self.sizes.items() if name in wanted}
        outputs, gradients = model_gradients(self.module, sizes, params, inputs, cotangents, seed)
        return outputs, {n: each for n, each in gradients.items() if n not in self.frozen}


def model_gradients(
    module: Any,  # noqa: ANN401 - a generated module
    sizes: Mapping[str, int],
    params: Arrays,
    inputs: Arrays,
    cotangents: Arrays,
    seed: int | None,
) -> tuple[Arrays, Arrays]:
    """Outputs, and gradients of parameters and float inputs; without one, zeros."""
    model = module.Model(0, torch.float64, **sizes)
    model.load_state_dict({name: torch.tensor(array) for name, array in params.items()})
    leaves = {name: torch.tensor(array) for name, array in inputs.items()}
    floats = {name: x.requires_grad_() for name, x in leaves.items() if x.is_floating_point()}
    seeded = "seed" in inspect.signature(model.forward).parameters
    arguments = [leaves[name] for name in leaves]
    given = {"seed": torch.tensor(seed)} if seeded and seed is not None else {}
    model.train(seed is not None)
    outputs = model(*arguments, **given)
    parts = [(outputs[name] * torch.tensor(c)).sum() for name, c in cotangents.items()]
    total = torch.stack(parts).sum() if parts else None
    if total is not None and total.requires_grad:
        total.backward()
    learned = {name: p for name, p in model.named_parameters() if p.requires_grad}
    found = {**learned, **floats}
    return (
        {name: output.detach().numpy() for name, output in outputs.items()},
        {name: _gradient(tensor) for name, tensor in found.items()},
    )


def _gradient(tensor: torch.Tensor) -> Array:
    gradient = torch.zeros_like(tensor) if tensor.grad is None else tensor.grad
    return np.asarray(gradient.detach().numpy())
