"""The model of `transformer.xg` in eager torch, its gradients by autograd."""

# torch says too little of its own types:
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from bench.plain_transformer import EPS, HEADS, LAYERS

Params = dict[str, Tensor]


def tensors(params: dict[str, NDArray[Any]]) -> Params:
    """Parameters that autograd follows."""
    return {name: torch.from_numpy(value).requires_grad_() for name, value in params.items()}


def loss_and_gradients(
    params: Params, ids: NDArray[Any], targets: NDArray[Any]
) -> tuple[float, dict[str, NDArray[Any]]]:
    """Loss and gradients by the names of the diagram."""
    for value in params.values():
        value.grad = None
    loss = _loss(params, torch.from_numpy(ids), torch.from_numpy(targets))
    loss.backward()
    return loss.item(), {name: np.asarray(value.grad) for name, value in params.items()}


def _loss(p: Params, ids: Tensor, targets: Tensor) -> Tensor:
    x = p["E"][ids] + p["P"]
    D = x.shape[-1]
    for i in range(LAYERS):
        at = f"layers.{i}."
        H = functional.layer_norm(x, (D,), p[at + "gamma_1"], p[at + "beta_1"], EPS)
        Q, K, V = (_split(H @ p[at + name]) for name in ("W_Q", "W_K", "W_V"))
        mixed = functional.scaled_dot_product_attention(Q, K, V, is_causal=True)
        x = mixed.transpose(1, 2).flatten(2) @ p[at + "W_O"] + x
        G = functional.layer_norm(x, (D,), p[at + "gamma_2"], p[at + "beta_2"], EPS)
        U = functional.gelu(G @ p[at + "W_up"] + p[at + "b_up"], approximate="tanh")
        x = U @ p[at + "W_down"] + p[at + "b_down"] + x
    Y = functional.layer_norm(x, (D,), p["gamma"], p["beta"], EPS)
    Z = Y @ p["E"].T
    return functional.cross_entropy(Z.flatten(0, 1), targets.flatten())


def _split(x: Tensor) -> Tensor:
    return x.unflatten(-1, (HEADS, -1)).transpose(1, 2)
