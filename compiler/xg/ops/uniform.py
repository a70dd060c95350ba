"""Random numbers between two others, all as likely."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from xg.ir.dim import Scalar
from xg.ir.op import Op
from xg.ir.prim import Expr, broadcast, const, draw
from xg.ir.tensor import Shape
from xg.ir.use import Misuse, Number, new_axes


def limits(numbers: Mapping[str, float]) -> Misuse | None:
    """Refuse an empty range."""
    low, high = numbers["low"], numbers["high"]
    if low < high:
        return None
    message = f"uniform draws from {low:g} on and below {high:g}: there is nothing between"
    return Misuse(message, help=(f"for example uniform[...]({high:g}, {low:g})",))


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
    limits=limits,
    configure=new_axes("uniform", "uniform[B, S](0, 1)"),
    meaning="draws random numbers between two bounds; without a seed, their mean",
    formula="Y[i, ...] = low + (high - low) u, 0 <= u < 1",
    gradient="none: nothing is learned",
    source="the 2²⁴ steps of dropout's mask (ADR 0221)",
    legend="random numbers between two",
)
