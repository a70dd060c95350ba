"""Softmax over the last axis (seed 001, 4.3.5: node S, backward dS; seed 000, 3.4)."""

from __future__ import annotations

from typing import Final

from xg.ir.op import Op
from xg.ir.prim import Expr, exp, reduce_max, reduce_sum, where
from xg.ir.use import Data


def forward(z: Expr) -> Expr:
    """Shifted by the row's maximum, so that no exponential overflows; a row of -inf gives zeros."""
    peak = reduce_max(z).named("peak")
    e = exp(z - where(peak > float("-inf"), peak, 0.0)).named("e")
    total = reduce_sum(e).named("total")
    return e / where(total > 0.0, total, 1.0)


def adjoint(dp: Expr, p: Expr) -> tuple[Expr]:
    """``(dP - <dP, P>) P``: zero where P is, so a masked score gets no gradient."""
    return ((dp - reduce_sum(dp * p)) * p,)


OP: Final = Op(
    glyph="S",
    name="softmax",
    family="nonlinear",
    data=(Data("z"),),
    outputs=("p",),
    forward=forward,
    keeps_shape=True,
    adjoint=adjoint,
    meaning="softmax over the last axis; a row that is masked everywhere gives zeros",
    formula="p_i = exp(z_i) / Σ_j exp(z_j)",
    gradient="dZ = (dP - Σ dP ⊙ P) ⊙ P, Σ over the last axis",
    source="seed 001, 4.3.5; seed 000, 3.4",
)
