"""Concatenate the parts of a mesh axis' ranks (seed 001, 6: node AG)."""

from __future__ import annotations

from typing import Final

from xg.ir.collective import collective
from xg.ir.op import Op

OP: Final[Op] = collective(
    "AG",
    "all_gather",
    "puts the parts that the ranks of a mesh axis hold one after the other",
    "Y = X_0, X_1, … joined along the cut axis",
    "dX_i = the rank's slice of dY, summed where ranks use Y differently",
    "seed 001, 6",
    derived=False,
)
