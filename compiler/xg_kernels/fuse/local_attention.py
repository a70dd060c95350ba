"""Attention to a band of keys: a softmax of scores that an operator of the file hides by position.

A query sees the keys from `behind` positions before it to `ahead` positions after it, so a kernel
computes S (behind + ahead) scores of the S² that the readable form has.

A window is found by its comparisons, not by its name, so imported operators and handwritten ones
are found the same way. `flex_attention` only has compiled kernels and no float64 on a CPU. A word
for windows would repeat what the comparison says.
"""

from __future__ import annotations

from typing import Final

from xg.diagnostics.lazy_dataclass import replace
from xg.ir.dim import Dim, Scalar, as_scalar, size
from xg.ir.graph import Apply, Value
from xg.ir.op import Op
from xg.ir.prim import Expr
from xg.ir.use import Data, Number
from xg.passes.ring import attention
from xg.passes.ring.attention import CAUSAL, Band, Fusion, Inside, Match, band_of


def forward(
    q: Expr, k: Expr, v: Expr, m: Expr | None, *, scale: Scalar, behind: Scalar, ahead: Scalar
) -> tuple[Expr, dict[str, Expr]]:
    """``softmax(α q k⊤ + M) v`` of the keys in the band."""
    band = Band(behind.as_dim(), ahead.as_dim())
    return attention.forward(q, k, v, m, scale=scale, mask="none", band=band)


def adjoint(
    dy: Expr,
    q: Expr,
    k: Expr,
    v: Expr,
    m: Expr | None,
    y: Expr,
    lse: Expr,
    *,
    scale: Scalar,
    behind: Scalar,
    ahead: Scalar,
) -> tuple[Expr, ...]:
    """The gradient of attention: weights of keys outside the band are 0."""
    band = Band(behind.as_dim(), ahead.as_dim())
    return attention.adjoint(
        *(dy, q, k, v, m, y, lse, None),
        scale=scale,
        mask="none",
        p=None,
        scaling="scaled",
        band=band,
    )


# ---- the pattern --------------------------------------------------------------------------------


def match(last: Apply, inside: Inside) -> Match | None:
    """From the product with the values back to the product with the keys; there is no dropout."""
    soft = inside.maker(last.inputs[0], "S")
    if soft is None or "axis" in soft.attrs:
        return None
    hiding, band = _hiding(soft.inputs[0], inside)
    if band is None or band.behind is None or band.ahead is None:
        return None
    masked = next((step for step in hiding if step.op.glyph == "SM"), None)
    attrs = {
        **attention.of_mask(masked),
        "behind": _number(band.behind),
        "ahead": _number(band.ahead),
    }
    found = attention.between_products(last, inside, (*hiding, soft), attrs)
    if found is None or masked is None:
        return found
    return replace(found, inputs=(*found.inputs, *masked.inputs[1:]))


def _hiding(value: Value, inside: Inside) -> tuple[list[Apply], Band | None]:
    """The steps that scale and hide scores, in order, and the keys that all of them leave."""
    steps, band = list[Apply](), Band()
    while band is not None and value in inside.makers:
        step = inside.maker(value, inside.makers[value].op.glyph)
        seen = step and _visible_keys(step, steps, inside)
        if step is None or seen is None:
            break
        band, steps, value = band.intersect(seen), [step, *steps], step.inputs[0]
    return steps, band


def _visible_keys(step: Apply, others: list[Apply], inside: Inside) -> Band | None:
    """The keys that one step leaves; None if it does more than hide scores."""
    if step.op.glyph != "SM":
        return band_of(step.body(inside.types))
    if "axes" in step.attrs or any(other.op.glyph == "SM" for other in others):
        return None
    if not step.attrs["scale"].is_positive:
        return None  # it would change the -inf of what is hidden before it
    return CAUSAL if step.attrs["mask"] == "causal" else Band()


def _number(bound: Dim) -> Scalar:
    return size(bound) if bound.constant is None else as_scalar(float(bound.constant))


OP: Final = Op(
    glyph="LocalAttention",
    name="local_attention",
    family="nonlinear",
    data=(Data("q"), Data("k"), Data("v"), Data("m", "int", optional=True)),
    own=(Number("scale", 1.0), Number("behind"), Number("ahead")),
    forward=forward,
    adjoint=adjoint,
    meaning="attention to keys at most `behind` positions before and `ahead` after their query",
    formula="Y = softmax(α Q K⊤ + M) V",
    gradient="dV = P⊤ dY, dZ = (dY V⊤ - Σ dY ⊙ Y) ⊙ P, dQ = α dZ K, dK = α dZ⊤ Q",
    source="Beltagy et al. 2020; Jiang et al. 2023",
)
FUSION: Final = Fusion(OP, "•", match)
