"""A slice in its place among zeros: a term of a sum."""

from __future__ import annotations

from typing import Final

from xg.ir.placement import AxisState, Collective, RankPrimitive, ranks_over, scaled
from xg.ir.prim import Expr

PRIMITIVE: Final = RankPrimitive("pad_from_shard", axes=("axis",), rule="separate")


def local(x: Expr, over: str, source: AxisState, target: AxisState) -> Expr:
    """Return zeros of the size of the whole, with this rank's slice in its place."""
    shape = scaled(x.shape, source.axis, ranks_over(over))
    return PRIMITIVE(x, over, source.axis, shape=shape)


COLLECTIVE: Final = Collective(
    name="spread",
    glyph="spread",
    primitives=(PRIMITIVE,),
    moves=(("S", "P"),),
    local=local,
    meaning="turns a shard into a partial sum, with zeros outside the slice; sends nothing",
    formula="Y_i = zeros with X_i at slice i",
    gradient="dX_i = slice i of dY",
    source="conjugate of part",
    legend="a part as a term of a sum: zeros around it",
)
