"""Random zeros and ones."""

from __future__ import annotations

from typing import Final

from xg.ir.op import Op
from xg.ir.prim import Expr, broadcast, const, draw
from xg.ir.scalar import Scalar
from xg.ir.tensor import Shape
from xg.ir.use import Attrs, Misuse, Number, Use


def configure(use: Use) -> Attrs:
    """The shape that the brackets list; refuse what is no probability."""
    p = use.own["p"].constant
    if p is not None and not 0 <= p <= 1:
        raise Misuse(f"bernoulli gives 1 with probability {use.own['p']}", help=("0 <= p <= 1",))
    return {**use.own, "shape": use.bracketed("bernoulli", "bernoulli[B, S](0.5)")}


def forward(*, p: Scalar, shape: Shape) -> Expr:
    """1 with probability `p`, else 0; `p` itself when the program runs without a seed."""
    return draw(broadcast(const(p), shape), "bernoulli", p)


OP: Final = Op(
    glyph="bernoulli",
    name="bernoulli",
    family="source",
    data=(),
    own=(Number("p"),),
    brackets="new axes",
    forward=forward,
    configure=configure,
    meaning="draws 1 with probability p and else 0, as dropout its mask; without a seed p",
    formula="Y[i, ...] = 1 with probability p, else 0",
    gradient="none: nothing is learned",
    source="the 2²⁴ steps of dropout's mask (ADR 0221)",
    legend="random 1 or 0",
)
