"""Cross-entropy of logits with integer targets (seed 001, 5.5: softmax and loss in one node)."""

from __future__ import annotations

import math
from typing import Final

from xg.ir.conventions import Convention
from xg.ir.dim import ONE, Scalar, as_scalar, number, product, size
from xg.ir.functions import exp, log
from xg.ir.op import Description, Op
from xg.ir.prim import (
    Expr,
    all_axes,
    broadcast,
    equal,
    integer,
    iota,
    maximum,
    pick,
    place,
    reduce_max,
    reduce_sum,
    reshape,
    where,
)
from xg.ir.tensor import Shape, TensorType
from xg.ir.use import Attrs, Data, Misuse, Number, Use, Word


def configure(use: Use) -> Attrs:
    """Refuse targets and weights that do not belong to the logits' rows.

    `count` divides the sum over rows: how many there are, or 1. A rank, which has some of the rows,
    divides by that of the whole.
    """
    z, t, *weights = use.types
    if not z.shape or t.shape != z.shape[:-1]:
        raise Misuse(
            f"CE compares {use.spell(z.shape)} with targets {use.spell(t.shape)}",
            {1: f"one target for each row is {use.spell(z.shape[:-1])}"},
            _classes_elsewhere(use, z.shape, t),
        )
    if t.range != z.shape[-1]:
        classes = use.sizes.fold(z.shape[-1])
        raise Misuse(f"CE chooses among {classes}", {1: f"these targets are not `in {classes}`"})
    for w in weights:
        if w.shape != t.shape or w.range != number(2):
            raise Misuse(
                "CE weighs every target with 0 or 1", {2: f"this is not {use.spell(t.shape)} in 2"}
            )
    count = size(product(t.shape)) if use.own["reduction"] == "mean" else as_scalar(1.0)
    return {**use.own, "count": count}


def _classes_elsewhere(use: Use, logits: Shape, targets: TensorType) -> tuple[str, ...]:
    """Suggest how to make the classes the last axis; in torch they are the second."""
    letters = use.letters(logits)
    for axis, dim in enumerate(logits):
        if dim == targets.range and (*logits[:axis], *logits[axis + 1 :]) == targets.shape:
            moved = [*letters[:axis], *letters[axis + 1 :], letters[axis]]
            turn = f"T[{', '.join(letters)} -> {', '.join(moved)}]"
            turned = "T" if axis == len(logits) - 2 else turn
            return (f"classes are the last axis: `-> {turned} -> CE<-…`",)
    return ()


def forward(
    z: Expr,
    t: Expr,
    w: Expr | None,
    *,
    reduction: str,
    ignore: Scalar | None,
    count: Scalar,
    classes: Scalar | None = None,
) -> tuple[Expr, dict[str, Expr]]:
    """By log-sum-exp; the mean is over the targets that count, and 0 when none does.

    Of padded logits only the first `classes` are there.
    """
    z = _classes(z, classes)
    peak = reduce_max(z).named("peak")
    shifted = (z - peak).named("shifted")
    log_total = log(reduce_sum(exp(shifted))).named("log_total")
    counts = _counts(t, w, ignore)
    rows = reshape(log_total, t.shape) - pick(shifted, _target(t, counts))
    rows = rows if counts is None else where(counts, rows, 0.0)
    total = reduce_sum(rows, all_axes(rows), keep=False)
    loss = total / _divisor(counts, count) if reduction == "mean" else total
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
    count: Scalar,
    classes: Scalar | None = None,
) -> tuple[Expr]:
    """Each row's share of the gradient times (softmax - one at the target).

    A row that does not count has none, even if its logits make no softmax.
    """
    counts = _counts(t, w, ignore)
    share = dloss / _divisor(counts, count) if reduction == "mean" else dloss
    p = exp(_classes(z, classes) - lse).named("p")
    if counts is None:
        return (p * share - place(broadcast(share, t.shape), t, z.shape[-1]),)
    share = where(counts, share, 0.0)
    there = place(share, _target(t, counts), z.shape[-1])
    slope = p * reshape(share, (*t.shape, ONE)) - there
    return (where(reshape(counts, (*t.shape, ONE)), slope, 0.0),)


def _classes(z: Expr, classes: Scalar | None) -> Expr:
    """Logits, -inf for those that are padding."""
    if classes is None:
        return z
    return where((integer(classes) > iota(z.shape[-1])).named("is_class"), z, float("-inf"))


def _counts(t: Expr, w: Expr | None, ignore: Scalar | None) -> Expr | None:
    """Which targets count, as booleans; None for all."""
    if ignore is None:
        return None if w is None else (w > 0.0).named("counts")
    weight = integer(1) if w is None else w
    return (where(equal(t, ignore), integer(0), weight) > 0.0).named("counts")


def _target(t: Expr, counts: Expr | None) -> Expr:
    """Return the targets, with 0 for each one that does not count: it may point nowhere."""
    return t if counts is None else where(counts, t, integer(0))


def _divisor(counts: Expr | None, count: Scalar) -> Expr | Scalar:
    """Return what a mean divides by: `count`, or the number of targets that count."""
    if counts is None:
        return count
    ones = where(counts, 1.0, 0.0)
    return maximum(reduce_sum(ones, all_axes(ones), keep=False), 1.0).named("count")


def describe(attrs: Attrs) -> Description:
    """Over all targets, or over those that count; averaged or summed."""
    some = attrs["ignore"] is not None or "w" not in attrs.get("absent", ())
    mean = attrs["reduction"] == "mean"
    weight, count = ("w ", "Σ w") if some else ("", "count")
    below = f" / {count}" if mean else ""
    which = "; w = 1 for targets that count, else 0" if some else ""
    return Description(
        "cross-entropy of softmax(z) with integer targets",
        f"loss = Σ {weight}(log Σ_j exp(z_j) - z_t){below}{which}",
        f"dZ = {weight}(softmax(Z) - onehot(t)){below} · dloss{which}",
    )


CONVENTIONS: Final = (
    Convention("tie", "equal logits share the gradient", "z -> CE<-t",
        {"z [B, V]": ((1.0, 1.0),), "t [B] in V": (0,)}, math.log(2), {"z": ((-0.5, 0.5),)},
        "F.cross_entropy(z, t)", "loss []"),
    Convention("infinity", "logits of 1,000 do not overflow, and a target of logit -inf costs inf",
        "z -> CE(sum)<-t", {"z [B, V]": ((-1000.0, 0.0), (-math.inf, 0.0)), "t [B] in V": (0, 0)},
        math.inf, {"z": ((-1.0, 1.0), (-1.0, 1.0))}, 'F.cross_entropy(z, t, reduction="sum")',
        "loss []"),
    Convention("infinity", "a row of -inf costs NaN", "z -> CE<-t",
        {"z [B, V]": ((-math.inf, -math.inf),), "t [B] in V": (0,)}, math.nan,
        {"z": ((math.nan, math.nan),)}, "F.cross_entropy(z, t)", "loss []"),
    Convention("empty axis", "the mean of no losses is NaN", "z -> CE<-t",
        {"z [B, 2]": (), "t [B] in 2": ()}, math.nan, {}, "F.cross_entropy(z, t)", "loss []"),
    Convention("empty axis", "if no target counts, the loss is 0", "z -> CE(ignore=9)<-t",
        {"z [B, V]": ((1.0, 3.0),), "t [B] in V": (9,)}, 0.0, {"z": ((0.0, 0.0),)},
        "F.cross_entropy(z, t, ignore_index=9)", "loss []",
        differs="PyTorch gives NaN. A batch of padding adds nothing, so it must not end a run."),
    Convention("index outside", "xg refuses a target that is no class, unless `ignore` names it; "
        "under jax.jit the loss is NaN", "z -> CE<-t",
        {"z [B, V]": ((3.0, 5.0),), "t [B] in V": (2,)}, torch="F.cross_entropy(z, t)",
        result="loss []", refused="is 2, expected integers from 0 to 1",
        others={"jax jit": math.nan}),
    Convention("half type", "the losses of rows are added in float32", "z -> CE(sum)<-t",
        {"z [B, V]": ((0.0, 0.0),) * 4096, "t [B] in V": (0,) * 4096}, 4096 * math.log(2),
        {"z": ((-0.5, 0.5),) * 4096}, 'F.cross_entropy(z, t, reduction="sum")', "loss []",
        dtype="bfloat16"),
)  # fmt: skip

OP: Final = Op(
    glyph="CE",
    name="cross_entropy",
    family="loss",
    data=(Data("z"), Data("t", "int"), Data("w", "int", optional=True)),
    own=(Word("reduction", ("mean", "sum")), Number("ignore", optional=True)),
    outputs=("loss",),
    sums_over_ranks=True,
    forward=forward,
    configure=configure,
    describe=describe,
    adjoint=adjoint,
    conventions=CONVENTIONS,
    meaning="cross-entropy of softmax(z) with integer targets; ignored targets don't count",
    formula="loss = Σ w (log Σ_j exp(z_j) - z_t) / Σ w",
    gradient="dZ = (softmax(Z) - onehot(t)) w / Σ w · dloss",
    source="seed 001, 5.5",
)
