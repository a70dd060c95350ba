"""Keys and values go round in one message."""

from __future__ import annotations

import pytest
import torch

from xg.codegen.emit.ring import apart, halves, in_one


@pytest.mark.parametrize("types", [("float32", "bfloat16"), ("bfloat16", "float32")])
def test_both_arrive_as_they_were_of_whatever_type(types: tuple[str, str]) -> None:
    """Under autocast keys that were turned by their places are wider than values."""
    k, v = (
        torch.randn(2, 5, width).to(getattr(torch, dtype))
        for width, dtype in zip((3, 4), types, strict=True)
    )
    for sent, arrived in zip((k, v), apart(in_one(k, v), k, v), strict=True):
        assert arrived.dtype == sent.dtype
        assert torch.equal(arrived, sent)


def test_a_sum_goes_into_its_half_of_the_message() -> None:
    k, v = torch.zeros(2, 3), torch.zeros(4)
    message = in_one(k, v)
    for half, term in zip(halves(message, k, v), (1, 2), strict=True):
        half += term
    assert torch.equal(message, torch.tensor([1.0] * 6 + [2.0] * 4))
