"""Tensors that a model makes without numbers and writes part by part."""

# pyright: reportUnknownMemberType=false

from __future__ import annotations

import pytest
import torch
from importing.test_cases import Map, agree, case, told
from torch import Tensor


def blank(x: Tensor) -> Tensor:
    return x.new_empty(*x.shape[:2], 11)


def in_order(x: Tensor) -> Tensor:
    y = blank(x)
    y[..., :3].copy_(x[..., 5:])
    y[..., 3:].copy_(x)
    return y


def out_of_order(x: Tensor) -> Tensor:
    y = torch.empty(x.shape[0], x.shape[1], 11, dtype=torch.float64)
    y[..., -8:] = x
    y[..., :3] = x[..., 5:]
    return y


@pytest.mark.parametrize("net", [in_order, out_of_order])
def test_parts_are_put_together_by_their_places(net: Map) -> None:
    text = agree(case(net))
    assert "slice[D](5, 8)               : Z [B, S, 3]\n    Z, M -> C" in text


def test_a_part_is_repeated_to_its_place() -> None:
    def net(x: Tensor) -> Tensor:
        y = x.new_empty(*x.shape[:2], 2, 11)
        y[..., :8].copy_(x[:, :, None])
        y[..., 8:].copy_(x[:, :, None, :3])
        return y

    assert "-> C" in agree(case(net))


def test_a_tensor_that_is_written_as_a_whole_is_what_was_written() -> None:
    def net(x: Tensor) -> Tensor:
        return torch.empty_like(x).copy_(x.relu())

    assert "-> ReLU : Y" in agree(case(net))


def half_written(x: Tensor) -> Tensor:
    y = blank(x)
    y[..., :3].copy_(x[..., 5:])
    return y


def overlapping(x: Tensor) -> Tensor:
    y = blank(x)
    y[..., :4].copy_(x[..., 4:])
    y[..., 3:].copy_(x)
    return y


def every_other(x: Tensor) -> Tensor:
    y = torch.empty_like(x)
    y[..., ::2].copy_(x[..., :4])
    y[..., 1::2].copy_(x[..., 4:])
    return y


def written_over(x: Tensor) -> Tensor:
    y = x.relu()
    y[..., :3].copy_(x[..., 5:])
    return y


def whole_and_again(x: Tensor) -> Tensor:
    y = torch.empty_like(x)
    y.copy_(x)
    y[..., :3].copy_(x[..., 5:])
    return y


@pytest.mark.parametrize(
    ("net", "said"),
    [
        (half_written, "it reads a tensor of which not all numbers were written"),
        (overlapping, "it writes into a tensor twice"),
        (every_other, "it writes every other position of a tensor"),
        (written_over, "it writes into a tensor that has numbers already"),
        (whole_and_again, "it writes into a tensor that has numbers already"),
    ],
)
def test_other_ways_of_writing_are_refused(net: Map, said: str) -> None:
    assert said in told(case(net))
