"""Cross-entropy of yes or no (seed 004, step 7), of probabilities or of logits."""

from __future__ import annotations

import math
from typing import Final

from xg.ir.conventions import Convention
from xg.ir.dim import product, size
from xg.ir.functions import log, sigmoid, softplus
from xg.ir.op import Description, Op
from xg.ir.prim import Expr, all_axes, maximum, reduce_mean, reduce_sum, where
from xg.ir.use import Attrs, Data, Word, equal_shapes

# A probability that rounds to 0 counts as the smallest normal 32-bit float, so a confident error
# costs 87 and not infinity, in every precision.
TINY: Final = 2.0**-126


def forward(y: Expr, t: Expr, *, reduction: str, form: str) -> Expr:
    """``-t log y - (1 - t) log(1 - y)``, of logits as ``log(1 + exp(y)) - t y``."""
    each = softplus(y) - t * y if form == "logits" else _surprise(y, t)
    reduce = reduce_mean if reduction == "mean" else reduce_sum
    return reduce(each, all_axes(each), keep=False)


def adjoint(dloss: Expr, y: Expr, t: Expr, *, reduction: str, form: str) -> tuple[Expr, Expr]:
    """``(y - t) / (y (1 - y))``, of logits ``sigmoid(y) - t``, for each element's share."""
    share = dloss / size(product(y.shape)) if reduction == "mean" else dloss
    if form == "logits":
        return (sigmoid(y) - t) * share, -(y * share)
    no = (1.0 - y).named("no")
    return (_over(1.0 - t, no) - _over(t, y)) * share, (_log(no) - _log(y)) * share


def _surprise(y: Expr, t: Expr) -> Expr:
    return -(t * _log(y) + (1.0 - t) * _log(1.0 - y))


def _log(p: Expr) -> Expr:
    return log(maximum(p, TINY))


def _over(a: Expr, p: Expr) -> Expr:
    """``a / p``, 0 where the logarithm is cut off."""
    return where(p > TINY, a / maximum(p, TINY), 0.0)


def describe(attrs: Attrs) -> Description:
    """Describe the loss: from probabilities or from logits, averaged or summed."""
    reduce, share = ("mean", " / n") if attrs["reduction"] == "mean" else ("Σ", "")
    if attrs["form"] == "logits":
        return Description(
            "cross-entropy of the sigmoid of logits with targets in 0 … 1",
            f"loss = {reduce}(log(1 + exp(Y)) - t Y)",
            f"dY = (σ(Y) - t){share} · dloss, dt = -Y{share} · dloss",
        )
    return Description(
        "cross-entropy of probabilities with targets in 0 … 1",
        f"loss = {reduce}(-t log Y - (1 - t) log(1 - Y))",
        f"dY = (Y - t) / (Y (1 - Y)){share} · dloss, dt = log((1 - Y) / Y){share} · dloss",
    )


CONVENTIONS: Final = (
    Convention("zero",
        "a probability of 0 counts as 2^-126, so a wrong one costs 87 and has no gradient",
        "y -> BCE<-t", {"y [B]": (0.0,), "t [B]": (1.0,)}, 126 * math.log(2), {"y": (0.0,)},
        "F.binary_cross_entropy(y, t)", "loss []", differs="PyTorch cuts the logarithm at -100 and "
        "gives the gradient -1e12. In float32 both are far from any slope of the loss; the form "
        "`logits` has neither."),
    Convention("zero",
        "a right probability of 0 or 1 costs nothing, and has the slope of the logarithm",
        "y -> BCE(sum)<-t", {"y [B]": (0.0, 1.0), "t [B]": (0.0, 1.0)}, 0.0, {"y": (1.0, -1.0)},
        'F.binary_cross_entropy(y, t, reduction="sum")', "loss []",
        differs="PyTorch gives the gradient 0, though -log(1 - y) has slope 1 at 0."),
    Convention("kink", "with logits, 0 is an ordinary point and 1,000 does not overflow",
        "y -> BCE(sum, logits)<-t", {"y [B]": (0.0, 1000.0, -1000.0), "t [B]": (0.0, 0.0, 1.0)},
        math.log(2) + 2000, {"y": (0.5, 1.0, -1.0)},
        'F.binary_cross_entropy_with_logits(y, t, reduction="sum")', "loss []"),
    Convention("empty axis", "the mean of no losses is NaN", "y -> BCE<-t",
        {"y [B]": (), "t [B]": ()}, math.nan, {"y": ()}, "F.binary_cross_entropy(y, t)", "loss []"),
    Convention("half type", "losses are added in float32", "y -> BCE(sum, logits)<-t",
        {"y [B]": (-64.0,) * 4096, "t [B]": (1.0,) * 4096}, 64 * 4096.0, {"y": (-1.0,) * 4096},
        'F.binary_cross_entropy_with_logits(y, t, reduction="sum")', "loss []", dtype="bfloat16"),
)  # fmt: skip

OP: Final = Op(
    glyph="BCE",
    name="binary_cross_entropy",
    family="loss",
    data=(Data("y"), Data("t")),
    own=(Word("reduction", ("mean", "sum")), Word("form", ("probabilities", "logits"))),
    outputs=("loss",),
    sums_over_ranks=True,
    forward=forward,
    configure=equal_shapes("BCE compares {} with targets {}"),
    describe=describe,
    adjoint=adjoint,
    conventions=CONVENTIONS,
    meaning="cross-entropy of probabilities (or of the sigmoid of logits) with targets in 0 … 1",
    formula="loss = mean(-t log y - (1 - t) log(1 - y))",
    gradient="dY = (Y - t) / (Y (1 - Y)) / n · dloss; of logits dY = (σ(Y) - t) / n · dloss",
    source="seed 004, step 7",
)
