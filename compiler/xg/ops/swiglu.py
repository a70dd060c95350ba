"""Gated unit with a SiLU gate (seed 000, 5: the MLP's alternative to GELU; Shazeer 2020)."""

from __future__ import annotations

from typing import Final

from xg.ir.conventions import Convention
from xg.ir.functions import sigmoid
from xg.ir.op import Op
from xg.ir.prim import Expr
from xg.ir.use import Data, equal_shapes


def forward(g: Expr, u: Expr) -> Expr:
    """``g sigmoid(g) u``."""
    return g * sigmoid(g) * u


def adjoint(dy: Expr, g: Expr, u: Expr) -> tuple[Expr, Expr]:
    """The product rule."""
    s = sigmoid(g).named("s")
    return dy * u * s * (1.0 + g * (1.0 - s)), dy * g * s


CONVENTIONS: Final = (
    Convention("infinity", "large gates do not overflow", "g -> SwiGLU<-u",
        {"g [D]": (1000.0, -1000.0), "u [D]": (1.0, 1.0)}, (1000.0, 0.0),
        {"g": (1.0, 0.0), "u": (1000.0, 0.0)}, "F.silu(g) * u"),
    Convention("kink", "a gate of 0 is an ordinary point", "g -> SwiGLU<-u",
        {"g [D]": (0.0,), "u [D]": (1.0,)}, (0.0,), {"g": (0.5,), "u": (0.0,)}, "F.silu(g) * u"),
)  # fmt: skip

OP: Final = Op(
    glyph="SwiGLU",
    name="swiglu",
    family="nonlinear",
    data=(Data("g"), Data("u")),
    forward=forward,
    keeps_shape=True,
    configure=equal_shapes("SwiGLU gates {1} by {0}"),
    adjoint=adjoint,
    conventions=CONVENTIONS,
    meaning="u times the SiLU of the gate g",
    formula="Y = G ⊙ σ(G) ⊙ U, σ the sigmoid",
    gradient="dG = dY ⊙ U ⊙ σ(G) ⊙ (1 + G ⊙ (1 - σ(G))), dU = dY ⊙ G ⊙ σ(G)",
    source="seed 000, 5; Shazeer 2020",
)
