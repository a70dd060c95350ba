"""The same numbers, from here on used by each rank for its own part (Megatron's f)."""

from __future__ import annotations

from typing import Final

from xg.ir.collective import collective
from xg.ir.op import Op

OP: Final[Op] = collective(
    "cast",
    "cast",
    "what all ranks hold is used by each for a part of its own; nothing is sent",
    "Y = X",
    "dX = Σ over ranks of dY_i",
    "conjugate of AR",
    derived=True,
)
