"""Random zeros and ones."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from xg.ir.dim import Scalar
from xg.ir.op import Op
from xg.ir.prim import Expr, broadcast, const, draw
from xg.ir.tensor import Shape
from xg.ir.use import Misuse, Number, new_axes


def limits(numbers: Mapping[str, float]) -> Misuse | None:
    """Refuse what is no probability."""
    p = numbers["p"]
    message = f"bernoulli gives 1 with probability {p:g}"
    return None if 0 <= p <= 1 else Misuse(message, help=("0 <= p <= 1",))


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
    limits=limits,
    configure=new_axes("bernoulli", "bernoulli[B, S](0.5)"),
    meaning="draws 1 with probability p, else 0; without a seed, p",
    formula="Y[i, ...] = 1 with probability p, else 0",
    gradient="none: nothing is learned",
    source="the 2²⁴ steps of dropout's mask (ADR 0221)",
    legend="random 1 or 0",
)
