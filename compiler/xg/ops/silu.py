"""Sigmoid linear unit, also called swish (Elfwing, Uchibe, Doya 2017)."""

from __future__ import annotations

from typing import Final

from xg.ir.conventions import Convention
from xg.ir.functions import sigmoid
from xg.ir.op import Op
from xg.ir.prim import Expr


def forward(x: Expr) -> Expr:
    """``x sigmoid(x)``."""
    return x * sigmoid(x)


def adjoint(dy: Expr, x: Expr) -> tuple[Expr]:
    """The product rule."""
    s = sigmoid(x).named("s")
    return (dy * s * (1.0 + x * (1.0 - s)),)


CONVENTIONS: Final = (
    Convention("infinity", "large numbers do not overflow", "x -> SiLU",
        {"x [D]": (1000.0, -1000.0, 0.0)}, (1000.0, 0.0, 0.0), {"x": (1.0, 0.0, 0.5)}, "F.silu(x)"),
    Convention("kink", "0 is an ordinary point", "x -> SiLU", {"x [D]": (0.0, -0.0)}, (0.0, 0.0),
        {"x": (0.5, 0.5)}, "F.silu(x)"),
)  # fmt: skip

OP: Final = Op(
    glyph="SiLU",
    name="silu",
    family="nonlinear",
    forward=forward,
    keeps_shape=True,
    adjoint=adjoint,
    conventions=CONVENTIONS,
    meaning="x times its sigmoid",
    formula="Y = X ⊙ σ(X), σ the sigmoid",
    gradient="dX = dY ⊙ σ(X) ⊙ (1 + X ⊙ (1 - σ(X)))",
    source="Elfwing, Uchibe, Doya 2017",
)
