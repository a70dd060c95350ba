"""Parameters that several modules read: they are declared where all of them can name them."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 - the name that torch's documentation gives it

import xg


class Words(nn.Module):
    """A table with a norm behind it, which is a block of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(23, 6)
        self.norm = nn.LayerNorm(6)
        self.up = nn.Linear(6, 6)

    def forward(self, ids: Tensor) -> Tensor:
        return self.up(F.gelu(self.norm(self.table(ids))))


class Body(nn.Module):
    """A block around that of the table."""

    def __init__(self) -> None:
        super().__init__()
        self.words = Words()
        self.inner = nn.Linear(6, 9)
        self.outer = nn.Linear(9, 6)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.words(ids)
        return x + self.outer(F.gelu(self.inner(x)))


class TiedTwoDeep(nn.Module):
    """The head reads a table that is two calls deep."""

    def __init__(self) -> None:
        super().__init__()
        self.body = Body()
        self.bias = nn.Parameter(torch.zeros(23))

    def forward(self, ids: Tensor) -> Tensor:
        return self.body(ids) @ self.body.words.table.weight.T + self.bias


def test_a_table_two_calls_deep_is_read_one_call_deep() -> None:
    made = xg.trace(TiedTwoDeep(), torch.arange(10).reshape(2, 5))
    assert "block Words" not in made.text
    assert "T(body.E_words_table)" in made.text
    assert made.sources["body.E_words_table"].source == "body.words.table.weight"


class Side(nn.Module):
    """One of two stacks that look up the same table."""

    def __init__(self, table: nn.Embedding) -> None:
        super().__init__()
        self.table = table
        self.inner = nn.Linear(6, 9)
        self.outer = nn.Linear(9, 6)

    def forward(self, ids: Tensor) -> Tensor:
        return self.outer(F.gelu(self.inner(self.table(ids))))


class TwoSides(nn.Module):
    """A table that two blocks beside each other read, and the head."""

    def __init__(self) -> None:
        super().__init__()
        table = nn.Embedding(23, 6)
        self.left, self.right = Side(table), Side(table)

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        z = self.left(x).mean(1, keepdim=True) + self.right(y)
        return z @ self.left.table.weight.T


def test_a_table_of_two_sides_is_looked_up_around_both() -> None:
    made = xg.trace(
        TwoSides(), torch.arange(10).reshape(2, 5), torch.arange(14).reshape(2, 7), name="Both"
    )
    assert made.text.count("block Side") == 2  # one for each length
    assert made.text.count("param E_left_table [V, D]") == 1
    assert made.text.count("-> Emb(E_left_table)") == 2


class Matrix(nn.Module):
    """One of two blocks with one matrix, which is no table to look up."""

    def __init__(self, shared: nn.Linear) -> None:
        super().__init__()
        self.shared = shared
        self.own = nn.Linear(6, 6)

    def forward(self, x: Tensor) -> Tensor:
        return self.own(F.gelu(self.shared(x)))


class TwoMatrices(nn.Module):
    """A matrix that two blocks beside each other read."""

    def __init__(self) -> None:
        super().__init__()
        shared = nn.Linear(6, 6)
        self.left, self.right = Matrix(shared), Matrix(shared)

    def forward(self, x: Tensor) -> Tensor:
        return self.left(x) + self.right(torch.relu(x))


def test_a_matrix_of_two_sides_dissolves_one_of_them() -> None:
    made = xg.trace(TwoMatrices(), torch.randn(2, 5, 6))
    assert made.text.count("•<=") == 4
