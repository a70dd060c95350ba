"""The sum over the ranks of a mesh axis, each keeping its slice."""

from __future__ import annotations

from typing import Final

from xg.ir.collective import collective
from xg.ir.op import Op

OP: Final[Op] = collective(
    "RS",
    "reduce_scatter",
    "sums the terms that the ranks of a mesh axis hold; each keeps its slice of the sum",
    "Y_i = slice i of Σ over ranks of X_j",
    "dX_j = dY_0, dY_1, … joined along the cut axis",
    "sequence parallelism",
    derived=False,
)
