"""Elementwise sum (seed 001, 4.3.2: node ⊕, the gradient passes unchanged)."""

from __future__ import annotations

from typing import Final

from xg.ir.op import Op
from xg.ir.prim import Expr
from xg.ir.use import Attrs, Data, Misuse, Use


def configure(use: Use) -> Attrs:
    """Refuse different shapes: broadcasting is written as BC."""
    first, second = (type_.shape for type_ in use.types)
    if first != second:
        raise Misuse(
            f"⊕ adds {use.spell(first)} and {use.spell(second)}",
            {0: f"this is {use.spell(first)}", 1: f"this is {use.spell(second)}"},
            ("⊕<-BC(…) repeats the operand along the missing axes",)
            if len(second) < len(first)
            else (),
        )
    return {}


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
    configure=configure,
    pullback=lambda attrs: {"a": "d", "b": "d"},
    meaning="elementwise sum of equal shapes: residuals, biases, gradients of a fan-out",
    formula="Y = A + B",
    gradient="dA = dY, dB = dY",
    source="seed 001, 4.3.2",
)
