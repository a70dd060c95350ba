"""Which rows of a table a rank has, and where they are among its own.

Operators that look rows up ask for this where the rows are cut; nothing is sent.
"""

from __future__ import annotations

from typing import Final

from xg.ir.dim import Dim
from xg.ir.placement import Collective, RankPrimitive
from xg.ir.prim import Expr

OWNS: Final = RankPrimitive("owns_index", sizes=("rows",), rule="nonlinear")
PLACE: Final = RankPrimitive("to_local_index", sizes=("rows",), rule="nonlinear")


def owns_index(ids: Expr, over: str, rows: Dim) -> Expr:
    """Tell for each id whether it points into the rows of this rank, which has `rows` rows."""
    return Expr(OWNS.name, (ids,), ids.shape, "bool", (("rows", rows), ("over", over)))


def to_local_index(ids: Expr, over: str, rows: Dim) -> Expr:
    """Return where ids point among this rank's rows; 0 for those that point elsewhere."""
    return Expr(PLACE.name, (ids,), ids.shape, "int", (("rows", rows), ("over", over)))


COLLECTIVE: Final = Collective(name="row_owner", glyph="", primitives=(OWNS, PLACE))
