"""Sum over the ranks of a mesh axis (seed 001, 6.2: node AR)."""

from __future__ import annotations

from typing import Final

from xg.ir.collective import collective
from xg.ir.op import Op

OP: Final[Op] = collective(
    "AR",
    "all_reduce",
    "sums the terms that the ranks of a mesh axis hold; afterwards all hold the sum",
    "Y = Σ over ranks of X_i",
    "dX_i = dY on every rank",
    "seed 001, 6.2",
    derived=False,
)
