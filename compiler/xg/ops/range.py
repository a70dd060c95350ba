"""Integers in order: positions as indices like any other."""

from __future__ import annotations

from typing import Final

from xg.ir.dim import ZERO, Dim
from xg.ir.op import Op
from xg.ir.prim import Expr, iota
from xg.ir.use import Attrs, Length, Use


def configure(use: Use) -> Attrs:
    """`start`, and `range`, which bounds the integers: one length alone is the bound."""
    first, second = use.own["start"], use.own["stop"]
    return {"start": ZERO, "range": first} if second is None else {"start": first, "range": second}


def forward(*, start: Dim, range: Dim) -> Expr:
    """``[range - start]``: the integers from `start` on that are below `range`."""
    return iota(range - start, start)


OP: Final = Op(
    glyph="range",
    name="range",
    family="source",
    data=(),
    own=(Length("start"), Length("stop", optional=True)),
    forward=forward,
    configure=configure,
    meaning="the integers 0 … n-1 of range(n), or a … b-1 of range(a, b)",
    formula="Y[i] = start + i",
    gradient="none: integers have no gradient",
    source="learned positions, seed 001, 5.2",
    legend="integers in order",
)
