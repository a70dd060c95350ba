"""Random numbers between two others, all as likely."""

from __future__ import annotations

from typing import Final

from xg.ir.op import Op
from xg.ir.prim import Expr, broadcast, const, draw
from xg.ir.scalar import Scalar
from xg.ir.tensor import Shape
from xg.ir.use import Attrs, Misuse, Number, Use


def configure(use: Use) -> Attrs:
    """The shape that the brackets list; refuse an empty range."""
    low, high = use.own["low"], use.own["high"]
    if low.constant is not None and high.constant is not None and low.constant >= high.constant:
        message = f"uniform draws from {low} on and below {high}: there is nothing between"
        raise Misuse(message, help=(f"for example uniform[...]({high}, {low})",))
    return {**use.own, "shape": use.bracketed("uniform", "uniform[B, S](0, 1)")}


def forward(*, low: Scalar, high: Scalar, shape: Shape) -> Expr:
    """Numbers from `low` on and below `high`; their mean when the program runs without a seed."""
    mean = const((low + high) / 2)
    return draw(broadcast(mean, shape), "uniform", high - low)


OP: Final = Op(
    glyph="uniform",
    name="uniform",
    family="source",
    data=(),
    own=(Number("low"), Number("high")),
    brackets="new axes",
    forward=forward,
    configure=configure,
    meaning="draws numbers between two, as dropout draws its mask; without a seed their mean",
    formula="Y[i, ...] = low + (high - low) u, 0 <= u < 1",
    gradient="none: nothing is learned",
    source="the 2²⁴ steps of dropout's mask (ADR 0221)",
    legend="random numbers between two",
)
