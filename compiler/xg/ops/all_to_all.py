"""Parts along one axis become parts along another."""

from __future__ import annotations

from typing import Final

from xg.ir.collective import collective
from xg.ir.op import Op

OP: Final[Op] = collective(
    "A2A",
    "all_to_all",
    "the ranks of a mesh axis exchange: a tensor cut along one axis is cut along another",
    "Y = X, cut along another axis",
    "dX = dY, cut as X was",
    "sequence and expert parallelism",
    derived=False,
)
