"""Arithmetic of tensors of one axis, inputs or parameters, and of single numbers."""

# torch says too little of its own types:
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

import xg


def gelu(x: Tensor) -> Tensor:
    return 0.5 * x * (1 + torch.erf(x / 2**0.5))


def centered(x: Tensor) -> Tensor:
    return x - x.mean(-1, keepdim=True)


def exponential_of_the_sum(x: Tensor) -> Tensor:
    return torch.exp(x.sum())


@pytest.mark.parametrize(
    ("of", "said"),
    [
        (torch.exp, "op Elementwise(x) = exp(x)"),
        (gelu, "inputs_0 -> GELU(exact) : Y [D]"),
        (centered, "op Elementwise(x [.., D]) = x - mean[D](x)"),
    ],
)
def test_a_vector_has_arithmetic_as_rows_have(of: Callable[[Tensor], Tensor], said: str) -> None:
    made = xg.trace(of, torch.randn(5))
    assert said in made.text
    assert made.proof.compared


def test_a_single_number_has_arithmetic() -> None:
    made = xg.trace(exponential_of_the_sum, torch.randn(5, 3))
    assert "inputs_0 -> sum[N, D] -> Elementwise : loss []" in made.text
    assert made.proof.compared


class Scaled(nn.Module):
    """Features by positive numbers, as models keep their logarithms."""

    def __init__(self) -> None:
        super().__init__()
        self.log_scale = nn.Parameter(torch.randn(6))

    def forward(self, x: Tensor) -> Tensor:
        return torch.exp(self.log_scale) * torch.relu(x)


def test_a_vector_of_parameters_has_arithmetic() -> None:
    made = xg.trace(Scaled(), torch.randn(2, 3, 6))
    assert "    g -> Elementwise : Z [D]" in made.text
    assert made.proof.compared
    assert [weight.source for weight in made.sources.values()] == ["log_scale"]
