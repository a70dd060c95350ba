"""One collective as every rank of a group has to call it, or one send as its ends have."""

from __future__ import annotations

import math
from dataclasses import dataclass

from xg_runtime.ranks.kinds import Kind


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
        """Count the elements of what is given, or of the result if that is larger."""
        return math.prod(self.shape) * (ranks if self.kind.grows else 1)

    def __str__(self) -> str:
        along = f" along {', '.join(map(str, self.along))}" if self.along else ""
        return f"{self.kind.name} over {self.axis} of {self.dtype} {list(self.shape)}{along}"
