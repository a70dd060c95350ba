"""The maximum of each window of an axis."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from xg.ir.conventions import Convention
from xg.ir.dim import ONE, Dim
from xg.ir.op import Op
from xg.ir.prim import Expr, broadcast, const, reduce_max, reshape, where
from xg.ir.use import OWN, Cut, Length, cut_windows, pool_configure, window_facts


def forward(x: Expr, *, axes: Sequence[int], cuts: Sequence[Cut], behind: Sequence[Dim]) -> Expr:
    """``Y[.., j, ..] = max_i X[.., j stride + i dilation - pad, ..]``; no zero beyond an end."""
    for axis, sizes, after in zip(axes, cuts, behind, strict=True):
        windows = cut_windows(x, (axis,), (sizes,))
        if sizes[-1].constant != 0 or after.constant != 0:
            ones = broadcast(const(1.0), sizes[:1])
            inside = cut_windows(ones, (-1,), (sizes,)) > 0.0
            shape = (*inside.shape, *(ONE for _ in range(-1 - axis)))
            windows = where(reshape(inside, shape), windows, -math.inf)
        x = reduce_max(windows, axis, keep=False)
    return x


CONVENTIONS: Final = (
    Convention("tie", "equal maxima of a window share the gradient", "x -> maxpool[D](2)",
        {"x [D]": (1.0, 1.0)}, (1.0,), {"x": (0.5, 0.5)}, "F.max_pool1d(x[None], 2)[0]", "y [D/2]",
        differs="PyTorch gives all of it to the first one. If it is shared, a mirrored image has "
        "the mirrored gradient, as with max[D]."),
    Convention("infinity", "padding counts as -inf", "x -> maxpool[D](3, stride=1, pad=1)",
        {"x [D]": (-5.0, -7.0)}, (-5.0, -5.0), {"x": (2.0, 0.0)},
        "F.max_pool1d(x[None], 3, 1, 1)[0]"),
)  # fmt: skip

OP: Final = Op(
    glyph="maxpool",
    name="max_pool",
    family="reduce",
    own=(Length("k"), *OWN),
    forward=forward,
    configure=pool_configure("maxpool"),
    brackets="axes",
    facts=window_facts,
    conventions=CONVENTIONS,
    meaning="takes the maximum of each window of k along the axes in brackets; without a stride, "
    "windows don't overlap",
    formula="Y[.., j, ..] = max_i X[.., j·stride + i·dilation - pad, ..]",
    gradient="dX = dY at the maximum of each window; equal ones share it",
    source="Weng et al. 1992",
    legend="maximum of each window",
)
