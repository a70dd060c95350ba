"""The sum over the ranks of a mesh axis, each keeping its slice."""

from __future__ import annotations

from typing import Final

from xg.ir.placement import AxisState, Collective, Price, RankPrimitive, ranks_over, scaled
from xg.ir.prim import Expr

PRIMITIVE: Final = RankPrimitive("reduce_scatter", axes=("axis",), rule="separate")


def local(x: Expr, over: str, source: AxisState, target: AxisState) -> Expr:
    """Sum the terms of all ranks, and keep this rank's slice."""
    shape = scaled(x.shape, target.axis, ranks_over(over) ** -1)
    return PRIMITIVE(x, over, target.axis, shape=shape)


COLLECTIVE: Final = Collective(
    name=PRIMITIVE.name,
    glyph="RS",
    primitives=(PRIMITIVE,),
    moves=(("P", "S"),),
    local=local,
    reduces="P",
    price=Price(),
    nesting="outer first",
    meaning="sums the partial sums of the ranks along a mesh axis; each rank keeps its slice",
    formula="Y_i = slice i of Σ over ranks of X_j",
    gradient="dX_j = dY_0, dY_1, … joined along the cut axis",
    source="sequence parallelism",
    legend="reduce-scatter: a rank's part of the sum over ranks",
    is_written=True,
    needs="a partial sum, and a label that cuts its result",
)
