"""One collective as every rank of a group has to call it, or one send as its ends have."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

Collective = Literal[
    "all_reduce", "all_reduce_max", "all_gather", "reduce_scatter", "all_to_all", "shift"
]
Kind = Collective | Literal["send"]


@dataclass(frozen=True, slots=True)
class Call:
    """Kind, mesh axis, shape and element type of this rank's operand.

    `along` are the tensor's axes that are joined and cut, counted from the end: they do not reach
    the mesh, but ranks that differ in them would join different things.
    """

    kind: Kind
    axis: str
    shape: tuple[int, ...]
    dtype: str
    itemsize: int
    along: tuple[int, ...] = ()

    def payload(self, ranks: int) -> int:
        """The elements that count: of an all-gather the result, else what is given."""
        return math.prod(self.shape) * (ranks if self.kind == "all_gather" else 1)

    def __str__(self) -> str:
        along = f" along {', '.join(map(str, self.along))}" if self.along else ""
        return f"{self.kind} over {self.axis} of {self.dtype} {list(self.shape)}{along}"
