"""Logistic function (seed 004, step 6: the prediction of a binary classifier)."""

from __future__ import annotations

from typing import Final

from xg.ir.conventions import Convention
from xg.ir.functions import sigmoid
from xg.ir.op import Op
from xg.ir.prim import Expr


def adjoint(dy: Expr, y: Expr) -> tuple[Expr]:
    """From the output alone."""
    return (dy * y * (1.0 - y),)


CONVENTIONS: Final = (
    Convention("infinity", "large numbers do not overflow", "x -> sigmoid",
        {"x [D]": (1000.0, -1000.0, 0.0)}, (1.0, 0.0, 0.5), {"x": (0.0, 0.0, 0.25)},
        "torch.sigmoid(x)"),
    Convention("kink", "0 is an ordinary point", "x -> sigmoid", {"x [D]": (0.0, -0.0)}, (0.5, 0.5),
        {"x": (0.25, 0.25)}, "torch.sigmoid(x)"),
)  # fmt: skip

OP: Final = Op(
    glyph="sigmoid",
    name="sigmoid",
    family="nonlinear",
    forward=sigmoid,
    keeps_shape=True,
    adjoint=adjoint,
    conventions=CONVENTIONS,
    meaning="a number between 0 and 1, read as a probability",
    formula="Y = 1 / (1 + exp(-X))",
    gradient="dX = dY ⊙ Y ⊙ (1 - Y)",
    source="seed 004, step 6",
)
