"""Rectified linear unit (seed 001, 4.3.3: backward dReLU)."""

from __future__ import annotations

from typing import Final

from xg.ir.conventions import Convention
from xg.ir.op import Op
from xg.ir.prim import Expr, maximum, where


def forward(x: Expr) -> Expr:
    """``max(x, 0)``."""
    return maximum(x, 0.0)


def adjoint(dy: Expr, x: Expr) -> tuple[Expr]:
    """The gradient where x is positive; at the kink, 0."""
    return (where(x > 0.0, dy, 0.0),)


CONVENTIONS: Final = (
    Convention("kink", "the slope at 0 is 0; max(x, 0) has 1/2", "x -> ReLU",
        {"x [D]": (-1.0, 0.0, 1.0)}, (0.0, 0.0, 1.0), {"x": (0.0, 0.0, 1.0)}, "torch.relu(x)"),
)  # fmt: skip

OP: Final = Op(
    glyph="ReLU",
    name="relu",
    family="nonlinear",
    forward=forward,
    keeps_shape=True,
    adjoint=adjoint,
    kinks=(0.0,),  # as torch.relu; max(x, 0) has slope 1/2 at 0, as torch.maximum
    conventions=CONVENTIONS,
    meaning="replaces negative numbers with 0",
    formula="Y = max(X, 0)",
    gradient="dX = dY where X > 0, else 0",
    source="seed 001, 4.3.3",
)
