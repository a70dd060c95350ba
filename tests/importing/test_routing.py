"""Routed experts as models write them: k of them for each token, here the sum over all."""

# pyright: reportUnknownMemberType=false

from __future__ import annotations

import pytest
import torch
from importing.agreement import compare, hold_on_rows, imported
from importing.sources import Case
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 - the name that torch's documentation gives it

from xg.diagnostics.diagnostic import DiagnosticError


class Experts(nn.Module):
    """Two layers of experts: matrices as [out, in] and gated, then [in, out] with biases."""

    def __init__(self, *, weighed: bool = True, beside: bool = False) -> None:
        super().__init__()
        self.weighed, self.beside = weighed, beside
        self.router = nn.Linear(6, 5, bias=False)
        self.gate_up = nn.Parameter(torch.randn(5, 2 * 7, 6))
        self.down = nn.Parameter(torch.randn(5, 6, 7))
        self.up = nn.Parameter(torch.randn(5, 6, 9))
        self.b_up = nn.Parameter(torch.randn(5, 9))
        self.back = nn.Parameter(torch.randn(5, 9, 6))
        self.shared = nn.Linear(6, 1, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        h = x.reshape(-1, x.shape[-1])
        shares, chosen = torch.topk(F.softmax(self.router(h), -1), 3)
        shares = shares / shares.sum(-1, keepdim=True)
        e, rows = chosen.reshape(-1), h.repeat_interleave(3, 0)
        one = torch.bmm(self.gate_up[e], rows.unsqueeze(-1)).squeeze(-1)
        gate, up = (one[..., ::2], one[..., 1::2]) if self.beside else one.chunk(2, -1)
        one = torch.bmm(self.down[e], (F.silu(gate) * up).unsqueeze(-1)).squeeze(-1)
        two = torch.bmm(rows.unsqueeze(1), self.up[e]).squeeze(1) + self.b_up[e]
        two = torch.bmm(F.gelu(two).unsqueeze(1), self.back[e]).squeeze(1)
        both = [y * shares.reshape(-1).unsqueeze(-1) if self.weighed else y for y in (one, two)]
        one, two = (y.view(h.shape[0], 3, 6).sum(1).reshape(x.shape) for y in both)
        return one + two * torch.sigmoid(self.shared(x))


def case(*, weighed: bool = True, beside: bool = False) -> Case:
    return Case(
        lambda: Experts(weighed=weighed, beside=beside),
        lambda b, s: (torch.randn(b, s, 6).double(),),
        (("B", "S"),),
    )


def test_experts_of_both_layouts_are_the_model() -> None:
    model, made = imported(case())
    assert "topk(k)" in made.text
    assert "scatter[k]" in made.text
    assert "W_gate_up, W_gate_up_2 [N_E, D, D_ff_2]" in made.text
    assert "W_back [N_E, D_ff, D]" in made.text
    hold_on_rows(model, made, 6)


def test_gates_and_values_of_experts_may_be_beside_each_other() -> None:
    model, made = imported(case(beside=True))
    torch.manual_seed(4)
    inputs = (torch.randn(4, 7, 6).double(),)
    assert max(compare(model, made, inputs, dict(made.params))) < 1e-8
    assert "pick[" in made.text
    assert "D_ff*N" in made.text
    assert "B*S" not in made.text


def test_rows_of_experts_without_weights_are_refused() -> None:
    with pytest.raises(DiagnosticError, match="weighed ones of the experts of a token"):
        imported(case(weighed=False))
