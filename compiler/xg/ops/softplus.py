"""A smooth maximum of x and 0 (Dugas et al. 2001)."""

from __future__ import annotations

import math
from typing import Final

from xg.ir.conventions import Convention
from xg.ir.functions import log_one_plus_exp, sigmoid
from xg.ir.op import Op
from xg.ir.prim import Expr


def adjoint(dy: Expr, x: Expr) -> tuple[Expr]:
    """The sigmoid of the operand."""
    return (dy * sigmoid(x),)


CONVENTIONS: Final = (
    Convention("infinity", "large numbers do not overflow, and small results stay exact",
        "x -> softplus", {"x [D]": (1000.0, -1000.0, -40.0)},
        (1000.0, 0.0, math.log1p(math.exp(-40.0))), {"x": (1.0, 0.0, math.exp(-40.0))},
        "F.softplus(x)"),
    Convention("kink", "0 is an ordinary point", "x -> softplus", {"x [D]": (0.0,)},
        (math.log(2.0),), {"x": (0.5,)}, "F.softplus(x)"),
)  # fmt: skip

OP: Final = Op(
    glyph="softplus",
    name="softplus",
    family="nonlinear",
    forward=log_one_plus_exp,
    keeps_shape=True,
    adjoint=adjoint,
    conventions=CONVENTIONS,
    meaning="a smooth maximum of a number and 0",
    formula="Y = log(1 + exp(X))",
    gradient="dX = dY ⊙ σ(X)",
    source="Dugas et al. 2001",
)
