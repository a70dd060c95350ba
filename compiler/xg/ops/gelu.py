"""Gaussian error linear unit (seed 001, 4.3.3: backward dGELU; Hendrycks, Gimpel 2016)."""

from __future__ import annotations

import math
from typing import Final

from xg.ir.conventions import Convention
from xg.ir.functions import erf, exp, tanh
from xg.ir.op import Description, Op
from xg.ir.prim import Expr
from xg.ir.use import Attrs, Word

SQRT_2_OVER_PI: Final = math.sqrt(2 / math.pi)
CUBIC: Final = 0.044715


def forward(x: Expr, *, form: str) -> Expr:
    """``x`` times the normal distribution function of x, exact or by GPT-2's tanh."""
    return 0.5 * x * (1.0 + (_tanh(x) if form == "tanh" else erf(x / math.sqrt(2))))


def _tanh(x: Expr) -> Expr:
    # x + c x³, without a cube: NumPy squares by multiplying, and takes other powers by logarithms.
    return tanh(SQRT_2_OVER_PI * x * (1.0 + CUBIC * x**2)).named("t")


def adjoint(dy: Expr, x: Expr, *, form: str) -> tuple[Expr]:
    """The product rule."""
    if form == "exact":
        distribution = (0.5 * (1.0 + erf(x / math.sqrt(2)))).named("distribution")
        density = (exp(-0.5 * x**2) / math.sqrt(2 * math.pi)).named("density")
        return (dy * (distribution + x * density),)
    t = _tanh(x)
    inner = (SQRT_2_OVER_PI * (1.0 + 3 * CUBIC * x**2)).named("d_inner")
    slope = (0.5 * (1.0 + t) + 0.5 * x * (1.0 - t**2) * inner).named("slope")
    return (dy * slope,)


def describe(attrs: Attrs) -> Description:
    """The formulas of the form."""
    if attrs["form"] == "exact":
        return Description(
            "x times the probability that a normal number is below x",
            "Y = X ⊙ Φ(X), Φ(x) = (1 + erf(x / sqrt(2))) / 2",
            "dX = dY ⊙ (Φ(X) + X ⊙ φ(X)), φ the normal density",
        )
    return Description(
        "x times the probability that a normal number is below x, approximated with tanh",
        "Y = X ⊙ (1 + tanh(u)) / 2, u = sqrt(2/π) (X + 0.044715 X³)",
        "dX = dY ⊙ (1 + t + X ⊙ (1 - t²) ⊙ u') / 2, t = tanh(u), "
        "u' = sqrt(2/π) (1 + 3 · 0.044715 X²)",
    )


CONVENTIONS: Final = (
    Convention("infinity", "large numbers do not overflow", "x -> GELU",
        {"x [D]": (1000.0, -1000.0, 0.0)}, (1000.0, 0.0, 0.0), {"x": (1.0, 0.0, 0.5)},
        'F.gelu(x, approximate="tanh")'),
    Convention("infinity", "0 times -inf is NaN", "x -> GELU(exact)",
        {"x [D]": (-math.inf, 1000.0)}, (math.nan, 1000.0), {"x": (math.nan, 1.0)}, "F.gelu(x)"),
)  # fmt: skip

OP: Final = Op(
    glyph="GELU",
    name="gelu",
    family="nonlinear",
    own=(Word("form", ("tanh", "exact")),),
    forward=forward,
    keeps_shape=True,
    describe=describe,
    adjoint=adjoint,
    conventions=CONVENTIONS,
    meaning="x times the probability that a normal number is below x; `tanh` approximates it",
    formula="Y = X ⊙ (1 + tanh(sqrt(2/π) (X + 0.044715 X³))) / 2; exact: (1 + erf(X/sqrt(2))) / 2",
    gradient="dX = dY ⊙ g'(X)",
    source="seed 001, 4.3.3; Hendrycks, Gimpel 2016",
)
