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


@pytest.mark.parametrize(
    ("one", "other", "node"),
    [
        ((3, 1, 5, 4), (2, 4, 6), "-> •<=inputs_1 "),
        ((3, 1, 5, 4), (1, 2, 4, 6), "inputs_1 -> R "),  # the axis of 1 in front
        ((5, 4), (3, 4, 6), "-> •<=inputs_1 "),
        ((3, 2, 5, 4), (3, 1, 4, 6), "inputs_1 -> R[x, 1, d, c -> x, d, c]"),
    ],
)
def test_a_second_operand_is_the_same_along_axes_in_front(
    one: tuple[int, ...], other: tuple[int, ...], node: str
) -> None:
    """• lines up the last axes: axes in front that only the first has are not repeated."""

    made = xg.trace(Function(torch.matmul), torch.randn(one), torch.randn(other))
    assert node in made.text
    assert "BC(" not in made.text
    assert made.proof.compared


def test_rows_that_are_repeated_are_laid_out_before_a_product() -> None:
    def of(x: Tensor, row: Tensor) -> Tensor:
        return x @ row.expand(4, 6)

    made = xg.trace(Function(of), torch.randn(3, 5, 4), torch.randn(1, 6))
    assert made.proof.compared


def of_halves(x: Tensor) -> Tensor:
    first, second = x.unflatten(-1, (4, 8)).chunk(2, -1)
    return torch.cat([first * second, second], -1).flatten(-2)


def of_a_slice(x: Tensor) -> Tensor:
    return x.unflatten(-1, (4, 8))[..., 2:6].flatten(-2)


def of_the_mean_of_a_slice(x: Tensor) -> Tensor:
    return of_a_slice(x).mean(-1)


def of_all(x: Tensor) -> Tensor:
    return torch.relu(x).split([32, 0], -1)[0]


@pytest.mark.parametrize(
    ("of", "said"),
    [
        (of_halves, "R[x, q, (g=D/S, s) -> x, q, g, s] : Z   [2, 3, D/S, S]"),
        (of_a_slice, "-> slice[N](2, 6) -> R[x, q, g, y -> x, q, (g, y)] : Y [2, 3, 4*D/N]"),
        (of_the_mean_of_a_slice, "dim S = 4*D/N, D = 32, N = 8"),
        (of_all, "inputs_0 -> ReLU : Y [2, 3, D]"),
    ],
)
def test_parts_of_an_input_are_counted_by_the_name_of_a_part(
    of: Callable[[Tensor], Tensor], said: str
) -> None:
    made = xg.trace(Function(of), torch.randn(2, 3, 32))
    assert said in made.text
    assert made.proof.compared
