"""Each rank takes its slice of a tensor that all ranks of a mesh axis have."""

from __future__ import annotations

from typing import Final

from xg.ir.placement import AxisState, Collective, RankPrimitive, ranks_over, scaled
from xg.ir.prim import Expr

PRIMITIVE: Final = RankPrimitive("shard_slice", axes=("axis",), rule="separate")


def shard_slice(x: Expr, over: str, axis: int) -> Expr:
    """Return this rank's slice of a whole."""
    return PRIMITIVE(x, over, axis, shape=scaled(x.shape, axis, ranks_over(over) ** -1))


def local(x: Expr, over: str, source: AxisState, target: AxisState) -> Expr:
    """Take the slice along the axis that is to be cut."""
    return shard_slice(x, over, target.axis)


COLLECTIVE: Final = Collective(
    name="part",
    glyph="part",
    primitives=(PRIMITIVE,),
    moves=(("I", "S"), ("R", "S"), ("C", "S")),
    local=local,
    nesting="outer first",
    meaning="takes this rank's slice of a replicated tensor; sends nothing",
    formula="Y_i = slice i of X",
    gradient="dX = dY_0, dY_1, … joined along the cut axis",
    source="conjugate of AG",
    legend="a rank's part of what all hold",
)
