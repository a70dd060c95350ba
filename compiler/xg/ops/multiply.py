"""Elementwise product: node ⊙."""

from __future__ import annotations

from typing import Final

from xg.ir.op import Op, Term
from xg.ir.prim import Expr
from xg.ir.use import Data, equal_shapes


def forward(a: Expr, b: Expr) -> Expr:
    """``a * b`` of one shape."""
    return a * b


OP: Final = Op(
    glyph="⊙",
    name="multiply",
    family="multiply",
    data=(Data("a"), Data("b")),
    forward=forward,
    keeps_shape=True,
    configure=equal_shapes("⊙ multiplies {} and {}", "⊙"),
    pullback=lambda attrs: {"a": Term("⊙", ("d", "b")), "b": Term("⊙", ("d", "a"))},
    meaning="elementwise product of equal shapes",
    formula="Y = A ⊙ B",
    gradient="dA = dY ⊙ B, dB = dY ⊙ A",
    source="seed 000, 3.1",
)
