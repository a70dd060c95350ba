"""Scale and mask attention scores (seed 001, 4.3.4: node SM, backward dSM; seed 000, 4.2)."""

from __future__ import annotations

import math
from typing import Final

from xg.ir.conventions import Convention
from xg.ir.dim import ONE, Dim, Scalar, as_scalar, number
from xg.ir.op import Description, Op
from xg.ir.prim import Expr, Operand, iota, reshape, where
from xg.ir.use import Attrs, Data, Misuse, Number, Use, Word

Axes = tuple[int, ...]  # of queries and keys, from the end
LAST_TWO: Final = (-2, -1)


def configure(use: Use) -> Attrs:
    """Refuse a mask of another shape, and a causal mask without queries and keys."""
    scores, *masks = use.types
    for mask in masks:
        if mask.shape != scores.shape:
            maps = use.repeats(mask.shape, scores.shape)
            how = " or ".join(f"<-{each}(…)" for each in maps[:2]) or "BC"
            raise Misuse(
                f"SM masks {use.spell(scores.shape)} with {use.spell(mask.shape)}",
                {1: "the mask must have the shape of the scores"},
                (f"repeat it, so that the figure shows the new axis: {how}",),
            )
        if mask.range != number(2):
            raise Misuse("SM takes a mask of 0 and 1", {1: "this is not `in 2`"})
    if use.own["mask"] == "causal" and len(scores.shape) < 2:
        raise Misuse(
            "a causal mask needs an axis of queries and one of keys",
            {0: f"{use.spell(scores.shape)} has {len(scores.shape)}"},
        )
    axes = _axes(use)
    return use.own if axes == LAST_TWO else {**use.own, "axes": axes}


def _axes(use: Use) -> Axes:
    """The axes of queries and keys that the brackets name, the last two without."""
    if use.axes is None:
        return LAST_TWO
    if use.own["mask"] != "causal":
        raise Misuse(
            "SM works along axes only where it is causal", help=("leave the brackets out",)
        )
    named = use.named_axes()
    if len(named) != 2:
        raise Misuse(
            "SM needs the axis of queries and the axis of keys", help=("name them: SM[S, S_k]",)
        )
    return named


def forward(a: Expr, m: Expr | None, *, scale: Scalar, mask: str, axes: Axes | None = None) -> Expr:
    """``scale a``, and -inf where `m` is 0 or where a key comes later than its query."""
    return _apply_mask(a if scale == as_scalar(1.0) else a * scale, m, mask, axes, float("-inf"))


def adjoint(
    dz: Expr, m: Expr | None, *, scale: Scalar, mask: str, axes: Axes | None = None
) -> tuple[Expr]:
    """``scale dZ``, and 0 where masked."""
    return (_apply_mask(dz if scale == as_scalar(1.0) else dz * scale, m, mask, axes, 0.0),)


def _apply_mask(x: Expr, m: Expr | None, mask: str, axes: Axes | None, hidden: Operand) -> Expr:
    shown = x if m is None else where(m > 0.0, x, hidden)
    if mask == "none":
        return shown
    # The last query sees every key: query i of S has key j of S_k for j <= i + (S_k - S), which
    # is the triangle for S = S_k and all cached keys for a single new query.
    rows, columns = axes or LAST_TWO
    queries, keys = x.shape[rows], x.shape[columns]
    last = _along(iota(queries, keys - queries), queries, rows)
    visible = (last >= _along(iota(keys), keys, columns)).named("visible")
    return where(visible, shown, hidden)


def _along(positions: Expr, count: Dim, axis: int) -> Expr:
    """Reshape positions along an axis, counted from the end, to broadcast over later axes."""
    return reshape(positions, (count, *[ONE] * (-axis - 1))) if axis != -1 else positions


def describe(attrs: Attrs) -> Description:
    """With the scale and the masks that there are."""
    factor = "α " if attrs["scale"] != as_scalar(1.0) else ""
    masks = {
        "m_ij = 1": "where the mask is 0" if "m" not in attrs.get("absent", ()) else "",
        "j <= i + S_k - S": "of keys after their query" if attrs["mask"] == "causal" else "",
    }
    hidden = " and ".join(text for text in masks.values() if text)
    if not hidden:
        return Description("scales scores", f"Z = {factor}A", f"dA = {factor}dZ")
    shown = " and ".join(condition for condition, text in masks.items() if text)
    return Description(
        f"{'scales scores, and hides those' if factor else 'hides scores'} {hidden}",
        f"z_ij = {factor}a_ij if {shown}, else -inf",
        f"da_ij = {factor}dz_ij if {shown}, else 0",
    )


CONVENTIONS: Final = (
    Convention("infinity", "a hidden score is -inf and has no gradient", "a -> SM<-m",
        {"a [S, K]": ((1.0, math.nan),), "m [S, K] in 2": ((1, 0),)}, ((1.0, -math.inf),),
        {"a": ((1.0, 0.0),)}, "a.masked_fill(m == 0, -math.inf)"),
)  # fmt: skip

OP: Final = Op(
    glyph="SM",
    name="scale_mask",
    family="nonlinear",
    data=(Data("a"), Data("m", "int", optional=True)),
    own=(Number("scale", 1.0), Word("mask", ("none", "causal"))),
    outputs=("z",),
    forward=forward,
    keeps_shape=True,
    configure=configure,
    describe=describe,
    brackets="axes",
    adjoint=adjoint,
    conventions=CONVENTIONS,
    meaning="scales scores; -inf where the mask is 0, and (causal) where key j > query i + S_k "
    "- S, along the last two axes or those in brackets: SM[S, S_k]",
    formula="Z = α A + M, M = 0 or -inf",
    gradient="dA = α dZ, 0 where masked",
    source="seed 001, 4.3.4; seed 000, 4.2",
)
