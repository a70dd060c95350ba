"""The maximum over the ranks of a mesh axis, element by element.

Only bodies of operators take it, such as that of a softmax whose row is cut.
"""

from __future__ import annotations

from typing import Final

from xg.ir.placement import Collective, Price, RankPrimitive

PRIMITIVE: Final = RankPrimitive("all_reduce_max", rule="largest")

COLLECTIVE: Final = Collective(
    name=PRIMITIVE.name,
    glyph="ARmax",
    primitives=(PRIMITIVE,),
    local=lambda x, over, source, target: PRIMITIVE(x, over),
    reduces="M",
    price=Price(times=2, through_one_rank=True),
)
