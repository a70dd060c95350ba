"""Slices that take an axis apart are one `split`, whose parts have names that add up."""

# torch says too little of its own types:
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

import xg


class Cut(nn.Module):
    """A function of what an input is cut into."""

    def __init__(self, of: Callable[[Tensor], object]) -> None:
        super().__init__()
        self.of = of

    def forward(self, x: Tensor) -> object:
        return self.of(x)


def of_equal_parts(x: Tensor) -> Tensor:
    first, second, third = x.split(2, -1)
    return first * second + third


def of_two_lengths(x: Tensor) -> Tensor:
    first, second = x.split([2, 4], -1)
    return first.sum(-1) + second.sum(-1)


def all_of_them(x: Tensor) -> tuple[Tensor, ...]:
    return x.split(2, -1)


@pytest.mark.parametrize(
    ("of", "said"),
    [
        (of_equal_parts, ["D = 3*N, N = 2", "x -> split            : Z [B, N], Z_2 [B, N]"]),
        (of_two_lengths, ["D = N + N_2, N = 2, N_2 = 4", "x -> split            : Z [B, N], Z_2"]),
        # Exported with an open axis S, of which the last part had S - 4: the model's has 2.
        (all_of_them, ["D = 3*N, N = 2", "x -> split : Y [B, N], Y_2 [B, N], Y_3"]),
    ],
)
def test_parts_of_an_input_are_cut_by_their_names(
    of: Callable[[Tensor], object], said: list[str]
) -> None:
    text = xg.trace(Cut(of), torch.randn(4, 6)).text
    assert [piece for piece in said if piece not in text] == []
