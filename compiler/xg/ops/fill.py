"""A tensor of one number: masks, offsets, and how states of a loop begin."""

from __future__ import annotations

from typing import Final

from xg.ir.op import Op
from xg.ir.prim import Expr, const
from xg.ir.scalar import Scalar
from xg.ir.tensor import Shape
from xg.ir.use import Attrs, Number, Use


def configure(use: Use) -> Attrs:
    """The shape that the brackets list."""
    return {**use.own, "shape": use.bracketed("fill", "fill[B, S](0)")}


def forward(*, value: Scalar, shape: Shape) -> Expr:
    """`value` everywhere."""
    return Expr("broadcast", (const(value),), shape)  # an array, also where it has no axes


OP: Final = Op(
    glyph="fill",
    name="fill",
    family="source",
    data=(),
    own=(Number("value"),),
    brackets="new axes",
    forward=forward,
    configure=configure,
    meaning="one number at every position of the axes in brackets",
    formula="Y[i, ...] = value",
    gradient="none: nothing is learned",
    source="constants of the NumPy interface (numpy.full)",
    legend="one number everywhere",
)
