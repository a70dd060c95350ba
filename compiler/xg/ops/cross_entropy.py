"""Cross-entropy of logits with integer targets (seed 001, 5.5: softmax and loss in one node)."""

from __future__ import annotations

from typing import Final

from xg.dim import ONE, number, product
from xg.op import Op
from xg.prim import (
    Expr,
    all_axes,
    broadcast,
    equal,
    exp,
    integer,
    log,
    maximum,
    pick,
    place,
    reduce_max,
    reduce_sum,
    reshape,
    where,
)
from xg.scalar import Scalar, size
from xg.use import Attrs, Data, Misuse, Number, Use, Word


def configure(use: Use) -> Attrs:
    """Refuse targets and weights that do not belong to the logits' rows."""
    z, t, *weights = use.types
    if not z.shape or t.shape != z.shape[:-1]:
        raise Misuse(
            f"CE compares {use.spell(z.shape)} with targets {use.spell(t.shape)}",
            {1: f"one target for each row is {use.spell(z.shape[:-1])}"},
        )
    if t.range != z.shape[-1]:
        classes = use.sizes.fold(z.shape[-1])
        raise Misuse(f"CE chooses among {classes}", {1: f"these targets are not `in {classes}`"})
    for w in weights:
        if w.shape != t.shape or w.range != number(2):
            raise Misuse(
                "CE weighs every target with 0 or 1", {2: f"this is not {use.spell(t.shape)} in 2"}
            )
    return use.own


def forward(
    z: Expr, t: Expr, w: Expr | None, *, reduction: str, ignore: Scalar | None
) -> tuple[Expr, dict[str, Expr]]:
    """By log-sum-exp; the mean is over the targets that count, and 0 when none does."""
    peak = reduce_max(z).named("peak")
    shifted = (z - peak).named("shifted")
    log_total = log(reduce_sum(exp(shifted))).named("log_total")
    counts = _counts(t, w, ignore)
    rows = reshape(log_total, t.shape) - pick(shifted, _target(t, counts))
    rows = rows if counts is None else where(counts, rows, 0.0)
    total = reduce_sum(rows, all_axes(rows), keep=False)
    loss = total / _count(t, counts) if reduction == "mean" else total
    return loss, {"lse": peak + log_total}


def adjoint(
    dloss: Expr,
    z: Expr,
    t: Expr,
    w: Expr | None,
    lse: Expr,
    *,
    reduction: str,
    ignore: Scalar | None,
) -> tuple[Expr]:
    """Each row's share of the gradient times (softmax - one at the target)."""
    counts = _counts(t, w, ignore)
    share = dloss / _count(t, counts) if reduction == "mean" else dloss
    share = broadcast(share, t.shape) if counts is None else where(counts, share, 0.0)
    p = exp(z - lse).named("p")
    there = place(share, _target(t, counts), z.shape[-1])
    return (p * reshape(share, (*t.shape, ONE)) - there,)


def _counts(t: Expr, w: Expr | None, ignore: Scalar | None) -> Expr | None:
    """Which targets count, as booleans; None for all."""
    if ignore is None:
        return None if w is None else (w > 0.0).named("counts")
    weight = integer(1) if w is None else w
    return (where(equal(t, ignore), integer(0), weight) > 0.0).named("counts")


def _target(t: Expr, counts: Expr | None) -> Expr:
    """The targets, 0 instead of those that do not count: they may point nowhere."""
    return t if counts is None else where(counts, t, integer(0))


def _count(t: Expr, counts: Expr | None) -> Expr | Scalar:
    if counts is None:
        return size(product(t.shape))
    ones = where(counts, 1.0, 0.0)
    return maximum(reduce_sum(ones, all_axes(ones), keep=False), 1.0).named("count")


OP: Final = Op(
    glyph="CE",
    name="cross_entropy",
    family="loss",
    data=(Data("z"), Data("t", "int"), Data("w", "int", optional=True)),
    own=(Word("reduction", ("mean", "sum")), Number("ignore", optional=True)),
    outputs=("loss",),
    forward=forward,
    configure=configure,
    adjoint=adjoint,
    meaning="cross-entropy of the softmax of logits with integer targets, over those that count",
    formula="loss = Σ w (log Σ_j exp(z_j) - z_t) / Σ w",
    gradient="dZ = (softmax(Z) - onehot(t)) w / Σ w · dloss",
    source="seed 001, 5.5",
)
