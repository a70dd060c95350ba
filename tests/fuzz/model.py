"""The generated `torch.nn.Module` of a random program, run under autograd."""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

Arrays = dict[str, NDArray[Any]]


def model_gradients(
    module: Any,  # noqa: ANN401 - a generated module
    sizes: Mapping[str, int],
    params: Arrays,
    inputs: Arrays,
    cotangents: Arrays,
    seed: int,
) -> tuple[Arrays, Arrays]:
    """Outputs, and gradients of parameters and float inputs; without one, zeros."""
    model = module.Model(0, torch.float64, **sizes)
    model.load_state_dict({name: torch.tensor(array) for name, array in params.items()})
    leaves = {name: torch.tensor(array) for name, array in inputs.items()}
    floats = {name: x.requires_grad_() for name, x in leaves.items() if x.is_floating_point()}
    seeded = "seed" in inspect.signature(model.forward).parameters
    arguments = [leaves[name] for name in leaves]
    outputs = model(*arguments, **({"seed": torch.tensor(seed)} if seeded else {}))
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


def _gradient(tensor: torch.Tensor) -> NDArray[Any]:
    gradient = torch.zeros_like(tensor) if tensor.grad is None else tensor.grad
    return np.asarray(gradient.detach().numpy())
