"""Softmax over one axis, the last (seed 001, 4.3.5: node S, backward dS; seed 000, 3.4)."""

from __future__ import annotations

from typing import Final

from xg.ir.op import Description, Op
from xg.ir.prim import Expr, exp, reduce_max, reduce_sum, where
from xg.ir.use import Attrs, Data, Misuse, Use


def configure(use: Use) -> Attrs:
    """The `axis` that the brackets name, counted from the end, where it is not the last."""
    if not use.types[0].shape:
        raise Misuse("S needs an axis to sum over", {0: "this is a scalar"})
    return use.along("S works along one axis", "name it: S[T]")


def forward(z: Expr, *, axis: int = -1) -> Expr:
    """Shifted by the row's maximum, so that no exponential overflows; a row of -inf gives zeros."""
    peak = reduce_max(z, axis).named("peak")
    e = exp(z - where(peak > float("-inf"), peak, 0.0)).named("e")
    total = reduce_sum(e, axis).named("total")
    return e / where(total > 0.0, total, 1.0)


def adjoint(dp: Expr, p: Expr, *, axis: int | None = None) -> tuple[Expr]:
    """``(dP - <dP, P>) P``: zero where P is, so a masked score gets no gradient."""
    return ((dp - reduce_sum(dp * p, -1 if axis is None else axis)) * p,)


def describe(attrs: Attrs) -> Description:
    """The axis by its place."""
    axis = attrs.get("axis", -1)
    along = "the last axis" if axis == -1 else f"axis {axis}"
    return Description(
        f"softmax over {along}; a row that is masked everywhere gives zeros",
        "p_i = exp(z_i) / Σ_j exp(z_j)",
        f"dZ = (dP - Σ dP ⊙ P) ⊙ P, Σ over {along}",
    )


OP: Final = Op(
    glyph="S",
    name="softmax",
    family="nonlinear",
    data=(Data("z"),),
    outputs=("p",),
    sums_over_ranks=True,
    forward=forward,
    keeps_shape=True,
    configure=configure,
    describe=describe,
    brackets="axes",
    adjoint=adjoint,
    meaning="softmax over the last axis, or the one in brackets; a row that is masked everywhere "
    "gives zeros",
    formula="p_i = exp(z_i) / Σ_j exp(z_j)",
    gradient="dZ = (dP - Σ dP ⊙ P) ⊙ P, Σ over that axis",
    source="seed 001, 4.3.5; seed 000, 3.4",
)
