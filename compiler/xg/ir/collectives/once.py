"""The same on every rank becomes a term of a sum: it counts once, on the first rank.

No plan asks for this move, so `moves` is empty: the pass that joins sums of a backward pass makes
it, where one sum goes over more mesh axes than another.
"""

from __future__ import annotations

from typing import Final

from xg.ir.placement import Collective, RankPrimitive

PRIMITIVE: Final = RankPrimitive("first_rank_only")

COLLECTIVE: Final = Collective(
    name="once",
    glyph="once",
    primitives=(PRIMITIVE,),
    local=lambda x, over, source, target: PRIMITIVE(x, over),
    meaning="turns a replicated tensor into a partial sum: zeros on all ranks but the first; "
    "sends nothing",
    formula="Y_0 = X, Y_i = zeros",
    gradient="dX_i = dY",
    source="conjugate of all_reduce",
    legend="a term of a sum: zeros but on one rank",
)
