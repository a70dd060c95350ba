"""Logarithm of a sum of exponentials: the norm of a softmax."""

from __future__ import annotations

import math
from typing import Final

from xg.ir.conventions import Convention
from xg.ir.functions import log_sum_exp
from xg.ir.op import Op
from xg.ir.prim import Expr
from xg.ir.use import Attrs, Use


def configure(use: Use) -> Attrs:
    """`axes` counted from the end."""
    return {"axes": use.reduced_axes("logsumexp")}


def forward(x: Expr, *, axes: tuple[int, ...]) -> Expr:
    """The axes are gone from the result."""
    return log_sum_exp(x, axes, keep=False)


INF: Final = math.inf
ROW: Final = "torch.logsumexp(x, -1)"
UNDEFINED: Final = (
    "PyTorch's gradient is NaN, because -inf minus -inf is. xg gives that of equal numbers, so a "
    "row that a mask hides everywhere does not spoil the rest."
)

CONVENTIONS: Final = (
    Convention("tie", "equal numbers share the gradient", "x -> logsumexp[D]",
        {"x [D]": (3.0, 3.0)}, 3.0 + math.log(2.0), {"x": (0.5, 0.5)}, ROW, "y []"),
    Convention("infinity", "numbers of 1,000 do not overflow, and -inf adds nothing",
        "x -> logsumexp[D]", {"x [D]": (1000.0, 1000.0, -INF)}, 1000.0 + math.log(2.0),
        {"x": (0.5, 0.5, 0.0)}, ROW, "y []"),
    Convention("infinity", "a row of -inf gives -inf, and its numbers share the gradient",
        "x -> logsumexp[D]", {"x [D]": (-INF, -INF)}, -INF, {"x": (0.5, 0.5)}, ROW, "y []",
        differs=UNDEFINED),
    Convention("infinity", "inf is the largest number, and takes the gradient", "x -> logsumexp[D]",
        {"x [D]": (INF, 1.0)}, INF, {"x": (1.0, 0.0)}, ROW, "y []",
        differs="PyTorch's gradient is NaN, because inf minus inf is."),
    Convention("empty axis", "an empty axis is an error", "x -> logsumexp[D]", {"x [D]": ()},
        torch=ROW, result="y []", refused="at least one position",
        differs="PyTorch gives -inf, the logarithm of 0. A row without numbers is more often a "
        "wrong shape than intended."),
    Convention("half type",
        "exponentials are added in float32: 65,536 of them are more than a float16 holds",
        "x -> logsumexp[D]", {"x [D]": (0.0,) * 65536}, math.log(65536.0),
        {"x": (2.0**-16,) * 65536}, "", "y []", dtype="float16"),
)  # fmt: skip

OP: Final = Op(
    glyph="logsumexp",
    name="logsumexp",
    family="reduce",
    forward=forward,
    configure=configure,
    brackets="axes",
    needs_axes=True,
    conventions=CONVENTIONS,
    meaning="the logarithm of the sum of exponentials over the axes in brackets",
    formula="Y = log Σ exp(X) over the axes named",
    gradient="dX = dY ⊙ exp(X - Y)",
    source="the normalizer of a softmax",
    legend="log of a sum of exponentials",
)
