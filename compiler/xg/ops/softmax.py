"""Softmax over one axis, the last (seed 001, 4.3.5: node S, backward dS; seed 000, 3.4)."""

from __future__ import annotations

import math
from typing import Final

from xg.ir.conventions import Convention
from xg.ir.functions import exp
from xg.ir.op import Description, Op
from xg.ir.prim import Expr, equal, reduce_max, reduce_sum, where
from xg.ir.use import Attrs, Data, Misuse, Use


def configure(use: Use) -> Attrs:
    """The `axis` that the brackets name, counted from the end, where it is not the last."""
    if not use.types[0].shape:
        raise Misuse("S needs an axis to sum over", {0: "this is a scalar"})
    return use.along("S works along one axis", "name it: S[T]")


def forward(z: Expr, *, axis: int = -1) -> Expr:
    """Shifted by the row's maximum, so that no exponential overflows; a row of -inf gives zeros.

    A row that has a NaN is NaN: `total` is compared with 0 so that NaN stays what it is.
    """
    peak = reduce_max(z, axis).named("peak")
    e = exp(z - where(peak > float("-inf"), peak, 0.0)).named("e")
    total = reduce_sum(e, axis).named("total")
    return e / where(equal(total, 0.0), 1.0, total)


def adjoint(dp: Expr, p: Expr, *, axis: int | None = None) -> tuple[Expr]:
    """``(dP - <dP, P>) P``: zero where P is, so a masked score gets no gradient."""
    return ((dp - reduce_sum(dp * p, -1 if axis is None else axis)) * p,)


def describe(attrs: Attrs) -> Description:
    """The axis by its place."""
    axis = attrs.get("axis", -1)
    along = "the last axis" if axis == -1 else f"axis {axis}"
    return Description(
        f"softmax over {along}; a fully masked row gives zeros",
        "p_i = exp(z_i) / Σ_j exp(z_j)",
        f"dZ = (dP - Σ dP ⊙ P) ⊙ P, Σ over {along}",
    )


CONVENTIONS: Final = (
    Convention("tie",
        "equal scores share the weight; the maximum that is subtracted has no gradient", "z -> S",
        {"z [D]": (1.0, 1.0)}, (0.5, 0.5), {"z": (-0.25, 0.25)}, "torch.softmax(z, -1)",
        cotangent=(1.0, 2.0)),
    Convention("infinity", "scores of 1,000 do not overflow, and -inf has weight 0", "z -> S",
        {"z [D]": (1000.0, 1000.0, -math.inf)}, (0.5, 0.5, 0.0), {"z": (-0.25, 0.25, 0.0)},
        "torch.softmax(z, -1)", cotangent=(1.0, 2.0, 3.0)),
    Convention("infinity", "a row of -inf, which a mask hides everywhere, gives zeros", "z -> S",
        {"z [D]": (-math.inf, -math.inf)}, (0.0, 0.0), {"z": (0.0, 0.0)}, "torch.softmax(z, -1)",
        cotangent=(1.0, 2.0), differs="`torch.softmax` gives NaN, which spreads to every "
        "parameter. A query of padding sees no key, and must not spoil the rest of the batch."),
    Convention("infinity", "a row that has a NaN or inf is NaN everywhere", "z -> S",
        {"z [D]": (math.nan, 1.0)}, (math.nan, math.nan), {"z": (math.nan, math.nan)},
        "torch.softmax(z, -1)"),
    Convention("axis of length 1", "the weight is 1 and has no gradient", "z -> S",
        {"z [D]": (7.0,)}, (1.0,), {"z": (0.0,)}, "torch.softmax(z, -1)"),
    Convention("empty axis", "an empty axis is an error", "z -> S", {"z [D]": ()},
        torch="torch.softmax(z, -1)", refused="at least one position",
        differs="PyTorch gives a row of no weights. Attention that sees no key at all is more "
        "often a wrong shape than intended."),
    Convention("half type",
        "the weights of 4,096 equal scores add up to 1: sums are computed in float32",
        "z -> S -> sum[D]", {"z [D]": (0.0,) * 4096}, 1.0, {"z": (0.0,) * 4096},
        "torch.softmax(z, -1).sum()", "y []", dtype="bfloat16"),
    Convention("half type",
        "65,536 equal scores share the weight: the sum of their exponentials exceeds float16",
        "z -> S -> sum[D]", {"z [D]": (0.0,) * 65536}, 1.0, {"z": (0.0,) * 65536},
        "torch.softmax(z, -1).sum()", "y []", dtype="float16"),
)  # fmt: skip

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
    conventions=CONVENTIONS,
    meaning="softmax over the last axis, or the one in brackets; a fully masked row gives zeros",
    formula="p_i = exp(z_i) / Σ_j exp(z_j)",
    gradient="dZ = (dP - Σ dP ⊙ P) ⊙ P, Σ over that axis",
    source="seed 001, 4.3.5; seed 000, 3.4",
)
