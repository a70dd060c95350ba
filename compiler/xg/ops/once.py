"""The same on every rank becomes a term of a sum: it counts once, on the first rank."""

from __future__ import annotations

from typing import Final

from xg.ir.collective import collective
from xg.ir.op import Op

OP: Final[Op] = collective(
    "once",
    "once",
    "the same everywhere becomes a term of a sum: zeros on all ranks but the first",
    "Y_0 = X, Y_i = zeros",
    "dX_i = dY",
    "conjugate of all_reduce",
    derived=True,
)
