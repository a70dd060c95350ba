"""Hyperbolic tangent (seed 001, 4.3.3: a nonlinearity g with dX = dY ⊙ g'(X))."""

from __future__ import annotations

from typing import Final

from xg.ir.functions import tanh
from xg.ir.op import Op

OP: Final = Op(
    glyph="tanh",
    name="tanh",
    family="nonlinear",
    forward=tanh,
    keeps_shape=True,
    meaning="a number between -1 and 1",
    formula="Y = tanh(X)",
    gradient="dX = dY ⊙ (1 - Y²)",
    source="seed 001, 4.3.3",
)
