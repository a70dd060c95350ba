"""A tensor of one number: masks, offsets, and how states of a loop begin."""

from __future__ import annotations

from typing import Final

from xg.ir.dim import ONE, symbol
from xg.ir.op import Op
from xg.ir.prim import Expr, const
from xg.ir.scalar import Scalar
from xg.ir.tensor import Shape
from xg.ir.use import Attrs, Axis, Misuse, Number, Use


def configure(use: Use) -> Attrs:
    """The shape that the brackets list."""
    if use.axes is None:
        raise Misuse("fill needs its axes in brackets", help=("for example fill[B, S](0)",))
    axes: list[Axis] = [axis for group in use.axes.source for axis in group]
    shape = tuple(use.sizes.expand(symbol(a.name)) if a.name else ONE for a in axes)
    return {**use.own, "shape": shape}


def forward(*, value: Scalar, shape: Shape) -> Expr:
    """`value` everywhere."""
    return Expr("broadcast", (const(value),), shape)  # an array, also where it has no axes


OP: Final = Op(
    glyph="fill",
    name="fill",
    family="source",
    data=(),
    own=(Number("value"),),
    brackets="axes",
    forward=forward,
    configure=configure,
    meaning="one number at every position of the axes in brackets",
    formula="Y[i, ...] = value",
    gradient="none: nothing is learned",
    source="constants of the NumPy interface (numpy.full)",
)
