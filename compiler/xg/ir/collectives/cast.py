"""The same numbers, from here on used by each rank for its own part (Megatron's f)."""

from __future__ import annotations

from typing import Final

from xg.ir.placement import Collective

COLLECTIVE: Final = Collective(
    name="cast",
    glyph="cast",
    moves=(("I", "R"),),
    nesting="any order",
    meaning="lets each rank use a replicated tensor for its own part; sends nothing",
    formula="Y = X",
    gradient="dX = Σ over ranks of dY_i",
    source="conjugate of AR",
    legend="what all ranks hold, used by each for a part",
)
