"""Cross-entropy of yes or no (seed 004, step 7), of probabilities or of logits."""

from __future__ import annotations

from typing import Final

from xg.ir.dim import product
from xg.ir.op import Description, Op
from xg.ir.prim import Expr, all_axes, log, maximum, reduce_mean, reduce_sum, where
from xg.ir.scalar import size
from xg.ir.special import sigmoid, softplus
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
    """Of probabilities or of logits, averaged or summed."""
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
    meaning="cross-entropy of probabilities (or of the sigmoid of logits) with targets in 0 … 1",
    formula="loss = mean(-t log y - (1 - t) log(1 - y))",
    gradient="dY = (Y - t) / (Y (1 - Y)) / n · dloss; of logits dY = (σ(Y) - t) / n · dloss",
    source="seed 004, step 7",
)
