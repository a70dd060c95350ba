"""A tensor of one number: masks, offsets, and how states of a loop begin."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from xg.ir.dim import ONE, Dim, Scalar
from xg.ir.op import Op
from xg.ir.prim import Expr, const, integer
from xg.ir.tensor import Shape, TensorType
from xg.ir.use import AtMost, Attrs, Number, new_axes


def facts(types: Sequence[TensorType], attrs: Attrs) -> tuple[AtMost, ...]:
    """An integer is below the end of its range."""
    if "range" not in attrs:
        return ()
    return (AtMost(attrs["value"].as_dim() + ONE, attrs["range"], "a state starts in its range"),)


def forward(*, value: Scalar, shape: Shape, range: Dim | None = None) -> Expr:
    """`value` everywhere; with a `range` it is an integer, as the start of a state may be."""
    number = const(value) if range is None else integer(value)
    return Expr("broadcast", (number,), shape, number.kind)  # an array, also where it has no axes


OP: Final = Op(
    glyph="fill",
    name="fill",
    family="source",
    data=(),
    own=(Number("value"),),
    brackets="new axes",
    forward=forward,
    configure=new_axes("fill", "fill[B, S](0)"),
    facts=facts,
    meaning="one number at every position of the axes in brackets",
    formula="Y[i, ...] = value",
    gradient="none: nothing is learned",
    source="constants of the NumPy interface (numpy.full)",
    legend="one number everywhere",
)
