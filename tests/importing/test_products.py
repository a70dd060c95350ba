"""Products of inputs: heads of several widths, and tensors with other axes in front."""

# torch says too little of its own types:
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 - the name that torch's documentation gives it

import xg


class Function(nn.Module):
    """A function of inputs, with no parameter."""

    def __init__(self, of: Callable[..., Tensor]) -> None:
        super().__init__()
        self.of = of

    def forward(self, *inputs: Tensor) -> Tensor:
        return self.of(*inputs)


def heads(x: Tensor, count: int) -> Tensor:
    return x.unflatten(-1, (count, -1)).transpose(1, 2)


def attention(q: Tensor, k: Tensor, v: Tensor, groups: int) -> Tensor:
    k, v = heads(k, groups), heads(v, groups)
    return F.scaled_dot_product_attention(heads(q, 6), k, v, enable_gqa=groups != 6)


@pytest.mark.parametrize(
    ("keys", "values", "groups", "dims"),
    [
        (8, 8, 2, "D = 24, D_2 = N_KV*D_h, N_H = 6, N_KV = 2, D_h = D/N_H"),
        (24, 30, 6, "D = 24, D_2 = N_H*D_v, D_v = 5, N_H = 6, D_h = D/N_H"),
    ],
)
def test_widths_of_inputs_follow_from_those_of_their_heads(
    keys: int, values: int, groups: int, dims: str
) -> None:
    def of(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return attention(q, k, v, groups)

    inputs = (torch.randn(2, 4, 24), torch.randn(2, 7, keys), torch.randn(2, 7, values))
    made = xg.trace(Function(of), *inputs)
    assert f"dim {dims}\n" in made.text
    assert made.proof.compared
