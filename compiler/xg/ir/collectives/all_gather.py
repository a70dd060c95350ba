"""Concatenate the parts of a mesh axis' ranks (seed 001, 6: node AG)."""

from __future__ import annotations

from typing import Final

from xg.ir.placement import AxisState, Collective, Price, RankPrimitive, ranks_over, scaled
from xg.ir.prim import Expr

PRIMITIVE: Final = RankPrimitive("all_gather", axes=("axis",), rule="separate")


def local(x: Expr, over: str, source: AxisState, target: AxisState) -> Expr:
    """Join the parts of all ranks along the axis that is cut."""
    shape = scaled(x.shape, source.axis, ranks_over(over))
    return PRIMITIVE(x, over, source.axis, shape=shape)


COLLECTIVE: Final = Collective(
    name=PRIMITIVE.name,
    glyph="AG",
    primitives=(PRIMITIVE,),
    moves=(("S", "R"), ("S", "I")),
    local=local,
    price=Price(),
    nesting="inner first",
    meaning="joins the shards of the ranks along a mesh axis; afterwards every rank has the whole "
    "tensor",
    formula="Y = X_0, X_1, … joined along the cut axis",
    gradient="dX_i = the rank's slice of dY, summed where ranks use Y differently",
    source="seed 001, 6",
    legend="all-gather",
    is_written=True,
    needs="a tensor that is cut, and a label that is not",
)
