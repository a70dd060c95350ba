"""Gated linear unit (seed 001, 4.3.3: backward dGL; Dauphin et al. 2016)."""

from __future__ import annotations

from typing import Final

from xg.ir.conventions import Convention
from xg.ir.functions import sigmoid
from xg.ir.op import Op
from xg.ir.prim import Expr
from xg.ir.use import Data, equal_shapes


def forward(g: Expr, u: Expr) -> Expr:
    """``sigmoid(g) u``."""
    return sigmoid(g) * u


def adjoint(dy: Expr, g: Expr, u: Expr) -> tuple[Expr, Expr]:
    """The product rule."""
    s = sigmoid(g).named("s")
    return dy * u * s * (1.0 - s), dy * s


CONVENTIONS: Final = (
    Convention("infinity", "large gates do not overflow", "g -> GLU<-u",
        {"g [D]": (1000.0, -1000.0), "u [D]": (1.0, 1.0)}, (1.0, 0.0),
        {"g": (0.0, 0.0), "u": (1.0, 0.0)}, "torch.sigmoid(g) * u"),
    Convention("kink", "a gate of 0 is an ordinary point", "g -> GLU<-u",
        {"g [D]": (0.0,), "u [D]": (1.0,)}, (0.5,), {"g": (0.25,), "u": (0.5,)},
        "torch.sigmoid(g) * u"),
)  # fmt: skip

OP: Final = Op(
    glyph="GLU",
    name="gated_linear_unit",
    family="nonlinear",
    data=(Data("g"), Data("u")),
    forward=forward,
    keeps_shape=True,
    configure=equal_shapes("GLU gates {1} by {0}"),
    adjoint=adjoint,
    conventions=CONVENTIONS,
    meaning="u times the sigmoid of the gate g",
    formula="Y = σ(G) ⊙ U, σ the sigmoid",
    gradient="dG = dY ⊙ U ⊙ σ(G) ⊙ (1 - σ(G)), dU = dY ⊙ σ(G)",
    source="seed 001, 4.3.3; Dauphin et al. 2016",
)
