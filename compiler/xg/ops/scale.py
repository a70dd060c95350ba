"""Product with a number known before any tensor is: ``scale(sqrt(D))`` (seed 002's embedding)."""

from __future__ import annotations

from typing import Final

from xg.ir.dim import Scalar, as_scalar
from xg.ir.op import Op, Term
from xg.ir.prim import Expr
from xg.ir.use import Number


def forward(x: Expr, *, c: Scalar) -> Expr:
    """``c x``; a share of an axis as a division, for there may be none of it: 0/0 is NaN."""
    if c.op == "/" and c.args[0] == as_scalar(1.0) and c.args[1].op == "size":
        return x / c.args[1]
    return x * c


OP: Final = Op(
    glyph="scale",
    name="scale",
    family="multiply",
    own=(Number("c"),),
    forward=forward,
    keeps_shape=True,
    pullback=lambda attrs: {"x": Term("scale", ("d",), {"c": attrs["c"]})},
    meaning="multiplies by a number",
    formula="Y = c X",
    gradient="dX = c dY",
    source="Vaswani et al. 2017, 3.4",
    legend="times a number",
)
