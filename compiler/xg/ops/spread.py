"""A slice in its place among zeros: a term of a sum."""

from __future__ import annotations

from typing import Final

from xg.ir.collective import collective
from xg.ir.op import Op

OP: Final[Op] = collective(
    "spread",
    "spread",
    "a slice becomes a term of a sum: zeros with the slice in its place",
    "Y_i = zeros with X_i at slice i",
    "dX_i = slice i of dY",
    "conjugate of part",
    derived=True,
)
