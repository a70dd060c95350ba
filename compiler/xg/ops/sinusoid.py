"""Fixed positions by sine and cosine (seed 003; Vaswani et al. 2017, 3.5)."""

from __future__ import annotations

from typing import Final

from xg.ir.dim import ONE, Dim, as_scalar, function, size
from xg.ir.functions import cos, exp, sin
from xg.ir.op import Op
from xg.ir.prim import Expr, as_float, concat, iota, reshape
from xg.ir.use import Attrs, Length, Misuse, Use

BASE: Final = 10000.0


def configure(use: Use) -> Attrs:
    """Refuse a width without pairs."""
    width: Dim = use.own["D"]
    if (width.constant or 0) % 2:
        raise Misuse(f"sinusoid pairs a sine with a cosine: D = {width} is odd")
    return use.own


def forward(*, S: Dim, D: Dim) -> Expr:
    """``[S, D]``: sines in the even columns, cosines in the odd ones."""
    position = reshape(as_float(iota(S)), (S, ONE)).named("position")
    slower = as_scalar(-2.0) * function("log", as_scalar(BASE)) / size(D)
    speed = exp(as_float(iota(D / 2)) * slower).named("speed")
    angle = (position * speed).named("angle")
    column = (S, D / 2, ONE)
    pairs = concat((reshape(sin(angle), column), reshape(cos(angle), column)), -1)
    return reshape(pairs, (S, D))


OP: Final = Op(
    glyph="sinusoid",
    name="sinusoid",
    family="source",
    data=(),
    own=(Length("S"), Length("D")),
    forward=forward,
    configure=configure,
    meaning="the positions 0 … S-1 as D sines and cosines of falling frequency",
    formula="Y[s, 2i] = sin(s / 10000^(2i/D)), Y[s, 2i+1] = cos(s / 10000^(2i/D))",
    gradient="none: nothing is learned",
    source="seed 003; Vaswani et al. 2017, 3.5",
    legend="sines and cosines of positions",
)
