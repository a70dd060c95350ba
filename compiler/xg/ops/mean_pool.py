"""The mean of each window of an axis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from xg.ir.conventions import Convention
from xg.ir.dim import Dim
from xg.ir.op import Op
from xg.ir.prim import Expr, reduce_mean
from xg.ir.use import PAD, STRIDE, Cut, Length, cut_windows, pool_configure, window_facts


def forward(x: Expr, *, axes: Sequence[int], cuts: Sequence[Cut], behind: Sequence[Dim]) -> Expr:
    """``Y[.., j, ..] = Σ_i X[.., j stride + i - pad, ..] / k``; zeros beyond the ends count."""
    del behind  # for the facts
    for axis, sizes in zip(axes, cuts, strict=True):
        x = reduce_mean(cut_windows(x, (axis,), (sizes,)), axis, keep=False)
    return x


CONVENTIONS: Final = (
    Convention("empty axis", "an empty batch gives an empty batch", "x -> meanpool[D](2)",
        {"x [B, D]": ()}, (), {"x": ()}, "x.unfold(-1, 2, 2).mean(-1)", "y [B, D/2]"),
    Convention("half type", "a mean is summed in float32: the sum may be larger than 65,504",
        "x -> meanpool[D](4)", {"x [D]": (30000.0,) * 4}, (30000.0,), {"x": (0.25,) * 4},
        "F.avg_pool1d(x[None], 4)[0]", "y [D/4]", dtype="float16"),
    Convention("infinity", "padding counts as 0, and also in the divisor",
        "x -> meanpool[D](3, stride=1, pad=1)", {"x [D]": (3.0, 6.0)}, (3.0, 3.0),
        {"x": (2 / 3, 2 / 3)}, "F.avg_pool1d(x[None], 3, 1, 1)[0]"),
)  # fmt: skip

OP: Final = Op(
    glyph="meanpool",
    name="mean_pool",
    family="reduce",
    own=(Length("k"), STRIDE, PAD),
    forward=forward,
    configure=pool_configure("meanpool"),
    brackets="axes",
    facts=window_facts,
    conventions=CONVENTIONS,
    meaning="averages each window of k along the axes in brackets; without a stride, windows "
    "don't overlap",
    formula="Y[.., j, ..] = Σ_i X[.., j·stride + i - pad, ..] / k",
    gradient="dX = dY / k at each element of a window",
    source="LeCun et al. 1989",
    legend="mean of each window",
)
