"""The axis of positions, and in which of two states a tensor has it.

In a step only the *new* positions arrive, S of them after T that were there before. An axis of
positions is `new` (length S) or *whole* (length T + S, all positions so far). Which of the two is
said by one flag for each axis of a tensor, False wherever there are no positions.
"""

from __future__ import annotations

from collections.abc import Sequence

from xg.diagnostics.lazy_dataclass import dataclass
from xg.ir.dim import Dim, symbol
from xg.ir.tensor import Shape, TensorType
from xg_generate.decode_step.errors import CannotStep

Whole = tuple[bool, ...]  # for each axis: whether it holds all positions so far


@dataclass(frozen=True, slots=True)
class PositionSymbols:
    """The symbol of the new positions in one graph (None: it has none), and of the past ones."""

    length: str | None
    past: Dim

    def is_axis(self, dim: Dim) -> bool:
        """Whether an axis of this size is the axis of positions; Refused for a mixture."""
        if self.mixes(dim):
            raise CannotStep(f"makes an axis {dim} of the positions {self.length}")
        return self.length is not None and dim.name == self.length

    def mixes(self, dim: Dim) -> bool:
        """Whether positions are a part of a size."""
        return self.length in dim.symbols() and dim.name != self.length

    def count(self, shape: Sequence[Dim]) -> int:
        """How many axes of positions a shape has."""
        return sum(map(self.is_axis, shape))

    def grown(self, dim: Dim) -> Dim:
        """A size with all positions so far in the place of the new ones."""
        if self.length is None:
            return dim
        return dim.substitute({self.length: self.past + symbol(self.length)})

    def shape(self, shape: Shape, whole: Whole) -> Shape:
        """The shape in a step."""
        return tuple(self.grown(d) if flag else d for d, flag in zip(shape, whole, strict=True))

    def type(self, type_: TensorType, whole: Whole) -> TensorType:
        """The type in a step; integers may be positions, so their bound grows."""
        range_ = self.grown(type_.range) if type_.range is not None else None
        return TensorType(self.shape(type_.shape, whole), range_)

    def all(self, shape: Shape) -> Whole:
        """The flags of a tensor that holds all positions so far."""
        return tuple(map(self.is_axis, shape))
