"""The end of a gradient: the forward pass goes on, the backward pass does not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from xg.ir.op import Gradient, Op
from xg.ir.prim import Expr, stop
from xg.ir.use import Attrs


def forward(x: Expr) -> Expr:
    """`x` as it is."""
    return stop(x)


def pullback(attrs: Attrs) -> Mapping[str, Gradient]:
    """Nothing."""
    return {}


OP: Final = Op(
    glyph="stop",
    name="stop",
    family="layout",
    forward=forward,
    keeps_shape=True,
    pullback=pullback,
    meaning="its operand, through which no gradient goes back",
    formula="Y = X",
    gradient="none: it counts as a constant",
    source="torch.Tensor.detach; jax.lax.stop_gradient",
)
