"""Elementwise sum (seed 001, 4.3.2: node ⊕, the gradient passes unchanged)."""

from __future__ import annotations

from typing import Final

from xg.ir.op import Op
from xg.ir.prim import Expr
from xg.ir.use import Data, equal_shapes


def forward(a: Expr, b: Expr) -> Expr:
    """``a + b`` of one shape."""
    return a + b


OP: Final = Op(
    glyph="⊕",
    name="add",
    family="add",
    data=(Data("a"), Data("b")),
    forward=forward,
    keeps_shape=True,
    configure=equal_shapes("⊕ adds {} and {}", "⊕"),
    pullback=lambda attrs: {"a": "d", "b": "d"},
    meaning="elementwise sum of equal shapes: residuals, biases, gradients of a fan-out",
    formula="Y = A + B",
    gradient="dA = dY, dB = dY",
    source="seed 001, 4.3.2",
)
