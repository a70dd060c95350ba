"""Parts along one axis become parts along another."""

from __future__ import annotations

from typing import Final

from xg.ir.placement import AxisState, Collective, Price, RankPrimitive, ranks_over, scaled
from xg.ir.prim import Expr

PRIMITIVE: Final = RankPrimitive("all_to_all", axes=("cut", "joined"), rule="separate")


def local(x: Expr, over: str, source: AxisState, target: AxisState) -> Expr:
    """Divide the target's axis among the ranks, and make the source's axis whole."""
    ranks = ranks_over(over)
    shape = scaled(scaled(x.shape, target.axis, ranks**-1), source.axis, ranks)
    return PRIMITIVE(x, over, target.axis, source.axis, shape=shape)


COLLECTIVE: Final = Collective(
    name=PRIMITIVE.name,
    glyph="A2A",
    primitives=(PRIMITIVE,),
    moves=(("S", "S"),),
    local=local,
    price=Price(payload="part"),
    meaning="exchanges slices along a mesh axis, so that a tensor sharded along one axis is "
    "sharded along another",
    formula="Y = X, cut along another axis",
    gradient="dX = dY, cut as X was",
    source="sequence and expert parallelism",
    legend="all-to-all",
    is_written=True,
    needs="a tensor that is cut, and a label that cuts another axis",
)
