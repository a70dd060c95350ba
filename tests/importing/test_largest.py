"""The largest number of an axis, which a softmax does without, and attention that leaves room."""

# pyright: reportUnknownMemberType=false

from __future__ import annotations

import pytest
import torch
from importing.test_cases import Map, agree, case
from torch import Tensor

import xg


def test_a_softmax_without_its_largest_score_is_one_node() -> None:
    def net(x: Tensor) -> Tensor:
        return (x - x.max(dim=-1, keepdim=True).values).softmax(-1)

    text = agree(case(net))
    assert "⊕<-BC(b_inner) -> S : Y" in text
    assert "max" not in text


def test_the_largest_number_is_arithmetic_elsewhere() -> None:
    def net(x: Tensor) -> Tensor:
        return x - 0.5 * x.max(dim=-1, keepdim=True).values

    assert "= x - sum[D](select(equal(range[D], argmax[D](x)), x, 0))*0.5" in agree(case(net))


def places(x: Tensor) -> Tensor:
    return x.max(dim=-1, keepdim=True).indices


def without_the_axis(x: Tensor) -> Tensor:
    return x.max(dim=-1).values


def along_positions(x: Tensor) -> Tensor:
    return x.max(dim=1, keepdim=True).values


def test_places_of_the_largest_numbers_are_a_node() -> None:
    x = torch.randn(3, 5, 6)
    made = xg.trace(places, x)
    (found,) = xg.compile(source=made.text).load().forward({}, {"inputs_0": x.numpy()})[0].values()
    assert "argmax[" in made.text
    assert found.tolist() == places(x).tolist()


def both(x: Tensor) -> tuple[Tensor, Tensor]:
    return x.argmax(-1), x.sin()


def test_places_may_go_out_beside_numbers() -> None:
    made = xg.trace(both, torch.randn(3, 5, 6).double())
    assert made.proof.worst < 1e-12


@pytest.mark.parametrize("then", [without_the_axis, along_positions])
def test_the_largest_number_may_be_along_any_axis(then: Map) -> None:
    assert "argmax[D](x)" in agree(case(then))


def test_attention_may_leave_room_for_a_sink() -> None:
    def net(x: Tensor) -> Tensor:
        scores = torch.cat([x @ x.transpose(-1, -2), x.mean(-1, keepdim=True)], -1)
        return (scores - scores.max(-1, keepdim=True).values).softmax(-1)[..., :-1] @ x

    text = agree(case(net))
    assert "-> C -> S" in text
    assert "-> slice[S_2](0, S) -> •<=" in text
