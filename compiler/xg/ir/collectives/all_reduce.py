"""Sum over the ranks of a mesh axis (seed 001, 6.2: node AR)."""

from __future__ import annotations

from typing import Final

from xg.ir.placement import Collective, Price, RankPrimitive

PRIMITIVE: Final = RankPrimitive("all_reduce")

COLLECTIVE: Final = Collective(
    name=PRIMITIVE.name,
    glyph="AR",
    primitives=(PRIMITIVE,),
    moves=(("P", "I"), ("P", "R")),
    local=lambda x, over, source, target: PRIMITIVE(x, over),
    reduces="P",
    price=Price(times=2, through_one_rank=True),
    nesting="any order",
    meaning="sums the partial sums of the ranks along a mesh axis; afterwards every rank has the "
    "sum",
    formula="Y = Σ over ranks of X_i",
    gradient="dX_i = dY on every rank",
    source="seed 001, 6.2",
    legend="all-reduce: the sum over ranks",
    is_written=True,
    needs="a partial sum",
)
