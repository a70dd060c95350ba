"""Each position repeated k times in a row (nearest neighbor), the way back from pooling."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from xg.ir.dim import ONE, Dim
from xg.ir.op import Op
from xg.ir.prim import Expr, broadcast, reshape
from xg.ir.use import Attrs, Length, Misuse, Use


def configure(use: Use) -> Attrs:
    """`axes` counted from the end, and k."""
    if use.axes is None:
        raise Misuse("upsample does not know which axis", help=("name it: upsample[S](k=2)",))
    k: Dim = use.own["k"]
    if k.constant is not None and k.constant < 1:
        raise Misuse(f"upsample repeats at least once, not {k} times")
    return {"axes": tuple(sorted(use.named_axes())), "k": k}


def forward(x: Expr, *, axes: Sequence[int], k: Dim) -> Expr:
    """``Y[.., j, ..] = X[.., floor(j / k), ..]``."""
    for axis in axes:
        front, length, back = x.shape[:axis], x.shape[axis], x.shape[axis:][1:]
        repeated = broadcast(reshape(x, (*front, length, ONE, *back)), (*front, length, k, *back))
        x = reshape(repeated, (*front, length * k, *back))
    return x


OP: Final = Op(
    glyph="upsample",
    name="upsample",
    family="layout",
    own=(Length("k"),),
    forward=forward,
    configure=configure,
    brackets="axes",
    meaning="repeats each position k times along the axes in brackets",
    formula="Y[.., j, ..] = X[.., floor(j / k), ..]",
    gradient="dX = Σ of dY over the k repetitions",
    source="the nearest neighbor",
    legend="repetition of each place",
)
