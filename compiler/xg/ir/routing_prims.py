"""The two primitives of routes: which are the largest, and who came before with the same choice."""

from __future__ import annotations

from xg.ir.dim import Dim
from xg.ir.prim import Expr


def top(x: Expr, count: Dim) -> Expr:
    """Where the `count` largest of the last axis are, the largest first; of equals the first."""
    return Expr("top", (x,), (*x.shape[:-1], count), "int", (("count", count),))


def earlier(ids: Expr) -> Expr:
    """How many before it on the last axis are equal to each id."""
    return Expr("earlier", (ids,), ids.shape, "int")
