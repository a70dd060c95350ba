"""Dropout (seed 001, 4.3.3: DO(X; m), backward dDO with the same mask)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from xg.ir.dim import Scalar
from xg.ir.op import Description, Op
from xg.ir.prim import Cuts, Expr, dropout_apply, dropout_keep
from xg.ir.use import Attrs, Misuse, Number, Word


def limits(numbers: Mapping[str, float]) -> Misuse | None:
    """Refuse what is no probability, and 1, which would keep nothing."""
    p = numbers["p"]
    fits = 0 <= p < 1
    return None if fits else Misuse(f"DO drops with probability {p:g}", help=("0 <= p < 1",))


def forward(x: Expr, *, p: Scalar, scaling: str, cuts: Cuts = ()) -> tuple[Expr, dict[str, Expr]]:
    """`x` times a random mask; `x` itself when the program runs without a seed."""
    keep = dropout_keep(x, p, cuts).named("keep")
    return dropout_apply(x, keep, p, scaled=scaling == "scaled"), {"keep": keep}


def describe(attrs: Attrs) -> Description:
    """With the scale, or without."""
    if attrs["scaling"] == "unscaled":
        return Description(
            "drops numbers with probability p", "Y = m ⊙ X, m = 0 or 1", "dX = m ⊙ dY"
        )
    return Description(
        "drops numbers with probability p; divides the rest by 1 - p to keep the mean",
        "Y = m ⊙ X / (1 - p), m = 0 or 1",
        "dX = m ⊙ dY / (1 - p)",
    )


OP: Final = Op(
    glyph="DO",
    name="dropout",
    family="nonlinear",
    own=(Number("p"), Word("scaling", ("scaled", "unscaled"))),
    forward=forward,
    keeps_shape=True,
    limits=limits,
    describe=describe,
    meaning="drops numbers with probability p; `scaled` divides the rest by 1 - p to keep the mean",
    formula="Y = m ⊙ X / (1 - p), m = 0 or 1",
    gradient="dX = m ⊙ dY / (1 - p)",
    source="seed 001, 4.3.3; Srivastava et al. 2014",
)
