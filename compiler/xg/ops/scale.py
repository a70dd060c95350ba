"""Product with a number known before any tensor is: ``scale(sqrt(D))`` (seed 002's embedding)."""

from __future__ import annotations

from typing import Final

from xg.ir.op import Op, Term
from xg.ir.prim import Expr
from xg.ir.scalar import Scalar
from xg.ir.use import Number


def forward(x: Expr, *, c: Scalar) -> Expr:
    """``c x``."""
    return x * c


OP: Final = Op(
    glyph="scale",
    name="scale",
    family="multiply",
    own=(Number("c"),),
    forward=forward,
    keeps_shape=True,
    pullback=lambda attrs: {"x": Term("scale", ("d",), {"c": attrs["c"]})},
    meaning="times a number",
    formula="Y = c X",
    gradient="dX = c dY",
    source="Vaswani et al. 2017, 3.4",
    legend="times a number",
)
