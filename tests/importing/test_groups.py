"""Routing by groups of experts, as DeepSeek-V3 does it, and a bias that no one trains."""

# pyright: reportUnknownMemberType=false

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import pytest
import torch
from importing.agreement import compare, hold_on_rows, imported
from importing.sources import Case
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 - the name that torch's documentation gives it

import xg
from xg.diagnostics.diagnostic import DiagnosticError


@dataclass(frozen=True)
class Routing:
    """How many experts, groups, groups that stay, and experts of a token there are."""

    experts: int = 8
    groups: int = 4
    kept: int = 2
    used: int = 3
    other: float = float("-inf")  # the score of experts in other groups


class Router(nn.Module):
    """The best groups by their two best scores with a bias; shares by scores without it."""

    bias: Tensor

    def __init__(self, routing: Routing) -> None:
        super().__init__()
        self.routing = routing
        self.weight = nn.Parameter(torch.randn(routing.experts, 6))
        self.register_buffer("bias", torch.randn(routing.experts).double())

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        to = self.routing
        scores = F.linear(x.type(torch.float64), self.weight.type(torch.float64)).sigmoid()
        biased = scores + self.bias
        inside = to.experts // to.groups
        best = biased.view(-1, to.groups, inside).topk(2, dim=-1)[0].sum(dim=-1)
        groups = torch.topk(best, k=to.kept, dim=-1, sorted=False)[1]
        mask = torch.zeros_like(best).scatter_(1, groups, 1)
        mask = mask.unsqueeze(-1).expand(-1, to.groups, inside).reshape(-1, to.experts)
        left = biased.masked_fill(~mask.bool(), to.other)
        chosen = torch.topk(left, k=to.used, dim=-1, sorted=False)[1]
        shares = scores.gather(1, chosen)
        shares /= shares.sum(dim=-1, keepdim=True) + 1e-20
        return shares * 2.5, chosen


class Experts(nn.Module):
    """Experts of one layer, behind a router."""

    def __init__(self, routing: Routing) -> None:
        super().__init__()
        self.gate = Router(routing)
        self.up = nn.Parameter(torch.randn(routing.experts, 7, 6))
        self.down = nn.Parameter(torch.randn(routing.experts, 6, 7))

    def forward(self, x: Tensor) -> Tensor:
        h = x.reshape(-1, x.shape[-1])
        shares, chosen = self.gate(h)
        k = chosen.shape[-1]
        e, rows = chosen.reshape(-1), h.repeat_interleave(k, 0)
        one = torch.bmm(self.up[e], rows.unsqueeze(-1)).squeeze(-1).relu()
        one = torch.bmm(self.down[e], one.unsqueeze(-1)).squeeze(-1)
        one = one * shares.reshape(-1).unsqueeze(-1)
        return one.view(h.shape[0], k, 6).sum(1).reshape(x.shape)


@cache
def routed(routing: Routing) -> Case:
    return Case(
        lambda: Experts(routing), lambda b, s: (torch.randn(b, s, 6).double(),), (("B", "S"),)
    )


@pytest.mark.parametrize(
    "routing", [Routing(), Routing(used=4), Routing(kept=4, used=5), Routing(other=-1e4)], ids=str
)
def test_groups_of_experts_are_the_model(routing: Routing) -> None:
    model, made = imported(routed(routing))
    hold_on_rows(model, made, 6)


def test_groups_read_as_people_write_them() -> None:
    _, made = imported(routed(Routing()))
    assert "select(sum[k](hits) > 0, s, -inf)" in made.text
    assert "param W_weight [D, N_E], b [N_E] = zeros frozen" in made.text
    router = made.text.partition("block Router")[2].partition("}")[0]
    assert [line.split(" : ")[0].strip() for line in router.splitlines()[3:]] == [
        "X -> •<=W_weight -> sigmoid",
        "Z -> ⊕<-BC(b) -> R",
        "Z_2 -> topk(2)",
        "g -> Total -> topk(k_gr)",
        "Z_2 -> Within<-e_2 -> R",
        "-> topk(k)",
        "Z -> gather[N_E]<-Y -> Shares",
    ]
    assert made.sources["gate.b"].frozen


def test_a_single_group_says_nothing() -> None:
    model, made = imported(routed(Routing(groups=1, kept=1)))
    torch.manual_seed(4)
    inputs = (torch.randn(3, 5, 6).double(),)
    assert max(compare(model, made, inputs, dict(made.params))) < 1e-8
    assert "Within" not in made.text
    assert made.text.count("topk") == 1


def test_more_experts_than_the_groups_hold_are_refused() -> None:
    with pytest.raises(DiagnosticError) as error:
        imported(routed(Routing(used=5)))
    assert "it chooses 5 of 4 experts" in str(error.value)
    assert "num_experts_per_tok at most topk_group * n_routed_experts / n_group" in str(error.value)


def test_a_score_of_zero_does_not_hide_a_group() -> None:
    with pytest.raises(DiagnosticError, match="a number that does not hide scores"):
        imported(routed(Routing(other=0.0)))


class Shifted(nn.Module):
    """A linear layer plus what is in a buffer."""

    shift: Tensor

    def __init__(self, shift: Tensor) -> None:
        super().__init__()
        self.inner = nn.Linear(6, 9)
        self.register_buffer("shift", shift)

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(x) + self.shift


@pytest.mark.parametrize("shift", [torch.zeros(9), torch.arange(9.0)], ids=["zeros", "others"])
def test_a_saved_vector_is_a_frozen_parameter(shift: Tensor) -> None:
    made = xg.trace(Shifted(shift), torch.randn(2, 6))
    assert made.sources["b"].source == "shift"
    assert made.sources["b"].frozen
    assert '"shift" = "b"' in made.names


def test_a_saved_number_is_a_number() -> None:
    made = xg.trace(Shifted(torch.tensor([0.5])), torch.randn(2, 6))
    assert "= x + 0.5" in made.text
    assert len(made.sources) == 2


class Marked(nn.Module):
    """A choice that is used otherwise than to hide what was not chosen."""

    def __init__(self, use: str) -> None:
        super().__init__()
        self.inner, self.use = nn.Linear(6, 8), use

    def forward(self, x: Tensor) -> Tensor:
        scores = self.inner(x)
        marks = torch.zeros_like(scores).scatter(-1, scores.topk(2, -1)[1], 1)
        match self.use:
            case "product":
                return scores * marks
            case "what was chosen":
                return scores.masked_fill(marks.bool(), 0.0)
            case _:
                return scores.gather(1, torch.zeros_like(scores).long())


@pytest.mark.parametrize(
    ("use", "said"),
    [
        ("product", "it computes with which were chosen"),
        ("what was chosen", "it hides what was chosen"),
        ("indices", "its indices are not what topk chose along the last axis"),
    ],
)
def test_other_uses_of_a_choice_are_refused(use: str, said: str) -> None:
    with pytest.raises(DiagnosticError, match=said):
        xg.trace(Marked(use), torch.randn(2, 6))
