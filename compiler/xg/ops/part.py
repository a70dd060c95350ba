"""Each rank takes its slice of a tensor that all ranks of a mesh axis have."""

from __future__ import annotations

from typing import Final

from xg.ir.collective import collective
from xg.ir.op import Op

OP: Final[Op] = collective(
    "part",
    "part",
    "of what all ranks hold each takes its slice; nothing is sent",
    "Y_i = slice i of X",
    "dX = dY_0, dY_1, … joined along the cut axis",
    "conjugate of AG",
    derived=True,
)
