"""The mean of each window of an axis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from xg.ir.dim import Dim
from xg.ir.op import Op
from xg.ir.prim import Expr, reduce_mean
from xg.ir.use import Length
from xg.ir.windows import PAD, STRIDE, Cut, cut, facts, pooled


def forward(x: Expr, *, axes: Sequence[int], cuts: Sequence[Cut], behind: Sequence[Dim]) -> Expr:
    """``Y[.., j, ..] = Σ_i X[.., j stride + i - pad, ..] / k``; zeros beyond the ends count."""
    del behind  # for the facts
    for axis, sizes in zip(axes, cuts, strict=True):
        x = reduce_mean(cut(x, (axis,), (sizes,)), axis, keep=False)
    return x


OP: Final = Op(
    glyph="meanpool",
    name="mean_pool",
    family="reduce",
    own=(Length("k"), STRIDE, PAD),
    forward=forward,
    configure=pooled("meanpool"),
    brackets="axes",
    facts=facts,
    meaning="averages each window of k along the axes in brackets; windows are side by side where "
    "no stride is given",
    formula="Y[.., j, ..] = Σ_i X[.., j·stride + i - pad, ..] / k",
    gradient="dX = dY / k at each element of a window",
    source="LeCun et al. 1989",
    legend="mean of each window",
)
