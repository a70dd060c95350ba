"""Logistic function (seed 004, step 6: the prediction of a binary classifier)."""

from __future__ import annotations

from typing import Final

from xg.ir import special
from xg.ir.op import Op
from xg.ir.prim import Expr


def forward(x: Expr) -> Expr:
    """``1 / (1 + exp(-x))`` without overflow."""
    return special.sigmoid(x)


def adjoint(dy: Expr, y: Expr) -> tuple[Expr]:
    """From the output alone."""
    return (dy * y * (1.0 - y),)


OP: Final = Op(
    glyph="sigmoid",
    name="sigmoid",
    family="nonlinear",
    forward=forward,
    keeps_shape=True,
    adjoint=adjoint,
    meaning="a number between 0 and 1, read as a probability",
    formula="Y = 1 / (1 + exp(-X))",
    gradient="dX = dY ⊙ Y ⊙ (1 - Y)",
    source="seed 004, step 6",
)
