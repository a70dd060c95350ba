"""How many operations of torch kernels call where there is one new position: each has its cost."""

# torch says too little of its own types:
# pyright: reportUnknownMemberType=false

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from codegen.kernels.cases import functions
from torch.utils._python_dispatch import TorchDispatchMode

from xg.codegen.torch.support import window
from xg_kernels.kernel_tables import TORCH_KERNELS

FUNCTIONS = functions(TORCH_KERNELS)
VIEWS = {"unsqueeze", "permute", "unfold", "transpose", "alias", "detach", "slice", "view"}


class Calls(TorchDispatchMode):
    """The names of the operations that are called, but for views."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_dispatch__(
        self,
        func: Any,  # noqa: ANN401 - torch does not say what it calls
        types: Sequence[type],
        args: Sequence[object] = (),
        kwargs: dict[str, object] | None = None,
    ) -> object:
        del types
        name = str(func).split(".")[1]
        self.names += [] if name in VIEWS else [name]
        return func(*args, **(kwargs or {}))


def calls(action: Callable[[], object]) -> list[str]:
    """The calls of an action."""
    with Calls() as seen:
        action()
    return seen.names


def random(*shape: int) -> torch.Tensor:
    return torch.randn(shape, dtype=torch.float64, generator=torch.manual_seed(0))


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("factor", [(1, 2, 3), (1, 2, 1)])
def test_one_state_is_one_call(reverse: bool, factor: tuple[int, ...]) -> None:
    recurrence = FUNCTIONS["recurrence"]
    a, b, h = random(*factor), random(1, 2, 3), random(2, 3)
    assert calls(lambda: recurrence(a, b, h, reverse)) == ["addcmul"]
    assert torch.allclose(recurrence(a, b, h, reverse), a * h + b, rtol=0, atol=1e-14)


def test_windows_inside_a_text_are_views_of_it() -> None:
    x = random(2, 5, 3)
    assert calls(lambda: window(x, -2, count=4, width=2)) == []
    found = window(x, -2, count=4, width=2)
    assert torch.equal(found, torch.stack([x[:, :-1], x[:, 1:]], -2))
    assert calls(lambda: window(x, -2, count=5, width=2, before=1)) == ["constant_pad_nd"]


@pytest.mark.parametrize("heads", [2, 4])
@pytest.mark.parametrize("queries", [1, 5])
def test_attention_alone_is_a_call_of_torch(heads: int, queries: int) -> None:
    q, shared = random(2, 4, queries, 6), (random(2, heads, 5, 6), random(2, heads, 5, 7)[..., 1:])
    k, v = (x.repeat_interleave(4 // heads, 1) for x in shared)
    attention, attention_output = FUNCTIONS["attention"], FUNCTIONS["attention_output"]
    wanted, _ = attention(q, k, v, None, 0.3, "causal")
    found = (
        attention_output(q, k, v, None, 0.3, "causal"),
        FUNCTIONS["grouped_attention_output"](q, *shared, 0.3, "causal"),
        FUNCTIONS["local_attention_output"](q, k, v, None, 0.3, 5, 0),
    )
    assert all(torch.allclose(each, wanted, rtol=0, atol=1e-12) for each in found)
    names = calls(lambda: attention_output(q, k, v, None, 0.3, "causal"))
    assert names == ["_scaled_dot_product_flash_attention_for_cpu"]
