"""Integers as rows with a single 1."""

from __future__ import annotations

from typing import Final

from xg.ir.conventions import Convention
from xg.ir.dim import ONE, Dim
from xg.ir.op import Op
from xg.ir.prim import Expr, equal, iota, reshape, where
from xg.ir.use import Attrs, Data, Use


def configure(use: Use) -> Attrs:
    """`length`: the range of the integers."""
    return {"length": use.types[0].range}


def forward(ids: Expr, *, length: Dim) -> Expr:
    """Zeros with a 1 in each row of the new last axis."""
    return where(equal(reshape(ids, (*ids.shape, ONE)), iota(length)), 1.0, 0.0)


CONVENTIONS: Final = (
    Convention("index outside", "xg refuses an id outside its range; under jax.jit its row is 0",
        "ids -> onehot", {"ids [N] in 2": (0, 2)}, ((1.0, 0.0), (0.0, 0.0)),
        torch="F.one_hot(ids, 2)", result="y [N, 2]", refused="ids",
        others={"jax jit": ((1.0, 0.0), (0.0, 0.0))}),
)  # fmt: skip

OP: Final = Op(
    glyph="onehot",
    name="one_hot",
    family="layout",
    data=(Data("ids", "int"),),
    forward=forward,
    configure=configure,
    conventions=CONVENTIONS,
    meaning="turns each integer into a row with a single 1, along a new last axis",
    formula="Y[.., v] = 1 if v = ids[..], else 0",
    gradient="none: integers have no gradient",
    source="categorical inputs and targets",
    legend="rows with a single 1",
)
