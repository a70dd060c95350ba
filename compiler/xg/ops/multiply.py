"""Elementwise product: node ⊙."""

from __future__ import annotations

from typing import Final

from xg.ir.op import Op, Term
from xg.ir.prim import Expr
from xg.ir.use import Attrs, Data, Misuse, Use


def configure(use: Use) -> Attrs:
    """Refuse different shapes: broadcasting is written as BC."""
    first, second = (type_.shape for type_ in use.types)
    if first != second:
        raise Misuse(
            f"⊙ multiplies {use.spell(first)} and {use.spell(second)}",
            {0: f"this is {use.spell(first)}", 1: f"this is {use.spell(second)}"},
            ("⊙<-BC(…) repeats the operand along the missing axes",)
            if len(second) < len(first)
            else (),
        )
    return {}


def forward(a: Expr, b: Expr) -> Expr:
    """``a * b`` of one shape."""
    return a * b


OP: Final = Op(
    glyph="⊙",
    name="multiply",
    family="multiply",
    data=(Data("a"), Data("b")),
    forward=forward,
    keeps_shape=True,
    configure=configure,
    pullback=lambda attrs: {"a": Term("⊙", ("d", "b")), "b": Term("⊙", ("d", "a"))},
    meaning="elementwise product of equal shapes",
    formula="Y = A ⊙ B",
    gradient="dA = dY ⊙ B, dB = dY ⊙ A",
    source="seed 000, 3.1",
)
