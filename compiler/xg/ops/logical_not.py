"""A mask turned round: what was 1 is 0. Frameworks disagree on whether 1 means seen or hidden."""

from __future__ import annotations

from typing import Final

from xg.ir.dim import number
from xg.ir.op import Op
from xg.ir.prim import Expr, integer, where
from xg.ir.use import Attrs, Data, Misuse, Use


def configure(use: Use) -> Attrs:
    """Refuse integers that are no mask."""
    if use.types[0].range != number(2):
        raise Misuse("not takes a mask of 0 and 1", {0: "this is not `in 2`"})
    return {}


def forward(m: Expr) -> Expr:
    """``1 - m``."""
    return where(m > 0.0, integer(0), integer(1))


OP: Final = Op(
    glyph="not",
    name="logical_not",
    family="layout",
    data=(Data("m", "int"),),
    forward=forward,
    keeps_shape=True,
    configure=configure,
    meaning="inverts a mask: 0 becomes 1, and 1 becomes 0",
    formula="Y = 1 - M",
    gradient="none: integers have no gradient",
    source="padding masks of torch, where 1 hides",
)
