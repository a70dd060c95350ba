"""Parts that go around a ring inside an operator, from each rank to the next.

On whole tensors both primitives are the identity. The body of a rank that has no kernel for the
ring gathers and scatters instead (`xg.sharding.local`).
"""

from __future__ import annotations

from typing import Final

from xg.ir.placement import Collective, Price, RankPrimitive
from xg.ir.prim import Expr

GATHER: Final = RankPrimitive("gather_around", axes=("axis",), rule="gathers")
SCATTER: Final = RankPrimitive("scatter_around", axes=("axis",), rule="scatters")


def gather_around(x: Expr, over: str, axis: int) -> Expr:
    """Return the whole of what is cut along an axis over this mesh axis."""
    return GATHER(x, over, axis)


def scatter_around(x: Expr, over: str, axis: int) -> Expr:
    """Return a sum of terms, cut along an axis over this mesh axis: the sums go around."""
    return SCATTER(x, over, axis)


COLLECTIVE: Final = Collective(
    name="shift",
    glyph="shift",
    primitives=(GATHER, SCATTER),
    price=Price(route="neighbor"),
)
