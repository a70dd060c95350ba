"""Each position's neighborhood as a new axis: what convolution, pooling and local attention share.

A window may reach beyond the ends of its axis, where zeros are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from xg.ir.dim import Dim
from xg.ir.op import Gradient, Op, Term
from xg.ir.prim import Expr
from xg.ir.use import (
    OWN,
    Attrs,
    Cut,
    Cutting,
    Length,
    Misuse,
    Use,
    configure_windows,
    cut_windows,
    window_facts,
)


def configure(use: Use) -> Attrs:
    """`axes` counted from the end, and the windows of each."""
    if use.axes is None:
        help = (f"name it: window[{use.window_axes()}](k=3)",)
        raise Misuse("window does not know along which axis", help=help)
    axes = sorted(use.named_axes())
    return configure_windows(use, [Cutting.of(use, use.own["k"])] * len(axes), axes, new=True)


def forward(x: Expr, *, axes: Sequence[int], cuts: Sequence[Cut], behind: Sequence[Dim]) -> Expr:
    """``Y[.., j, i, ..] = X[.., j stride + i dilation - pad, ..]``, 0 beyond the ends."""
    del behind  # for the facts
    return cut_windows(x, axes, cuts)


def pullback(attrs: Attrs) -> Mapping[str, Gradient]:
    """The gradients of all windows that a position is in."""
    return {"x": Term("overlap", ("d",), dict(attrs))}


OP: Final = Op(
    glyph="window",
    name="window",
    family="layout",
    own=(Length("k"), *OWN),
    forward=forward,
    configure=configure,
    brackets="axes",
    facts=window_facts,
    pullback=pullback,
    meaning="gives each position its k neighbors, on a new axis after it; pad adds zeros at both "
    "ends, causal only at the start",
    formula="Y[.., j, i, ..] = X[.., j·stride + i·dilation - pad, ..], 0 beyond the ends",
    gradient="dX = overlap(dY): the sum over the windows that a position is in",
    source="LeCun et al. 1989: receptive fields",
    legend="neighborhood of each place",
)
