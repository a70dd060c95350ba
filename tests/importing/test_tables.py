"""Rows of tables that are no parameters: inputs, and what is computed from parameters."""

# torch says too little of its own types:
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 - the name that torch's documentation gives it

import xg

Rows = Callable[[Tensor, Tensor], Tensor]
TOKENS = torch.randint(0, 9, (2, 5), generator=torch.Generator().manual_seed(1))


class Table(nn.Module):
    """A function of a table, which is a parameter, and of an input."""

    def __init__(self, of: Rows) -> None:
        super().__init__()
        self.of = of
        self.table = nn.Parameter(torch.randn(9, 6))

    def forward(self, x: Tensor) -> Tensor:
        return self.of(self.table, x)


def test_a_table_may_be_an_input() -> None:
    def rows(table: Tensor, ids: Tensor) -> Tensor:
        return F.embedding(ids, table)

    made = xg.trace(rows, torch.randn(9, 6), TOKENS, name="Rows")
    assert "inputs_0 -> gather[V]<-inputs_1 : Y [2, 5, D]" in made.text
    assert made.proof.compared


def of_tokens(table: Tensor, ids: Tensor) -> Tensor:
    return F.embedding(ids, torch.tanh(table))


def of_a_turned_table(table: Tensor, ids: Tensor) -> Tensor:
    return F.embedding(ids, table.t())


def of_positions(table: Tensor, x: Tensor) -> Tensor:
    return x + F.embedding(2 + torch.arange(x.shape[1]), torch.tanh(table))


def of_all_positions(table: Tensor, x: Tensor) -> Tensor:
    return x + F.embedding(torch.arange(9), torch.tanh(table))


@pytest.mark.parametrize(
    ("of", "x", "said"),
    [
        (of_tokens, TOKENS, "-> tanh -> gather[V]<-x : Y [B, S, D]"),
        (of_a_turned_table, TOKENS % 6, "-> gather[N]<-x : Y [B, S, D]"),
        (of_positions, torch.randn(2, 5, 6), "-> tanh -> slice[S_max](2, S+2) : Z [S, D]"),
        (of_all_positions, torch.randn(2, 9, 6), "-> tanh : Z [S_max, D]"),
    ],
)
def test_a_table_may_be_computed(of: Rows, x: Tensor, said: str) -> None:
    made = xg.trace(Table(of), x)
    assert said in made.text
    assert made.proof.compared
    assert [weight.source for weight in made.sources.values()] == ["table"]
