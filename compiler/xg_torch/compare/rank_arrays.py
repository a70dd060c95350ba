"""Arrays that the ranks of a mesh hold of one tensor, put together as one device would hold it.

Their code may cut a tensor along other axes than the plan does, so the axes are found by shape, and
by numbers where several would do. Ranks may also hold terms of a sum that is taken later.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations, product
from math import prod
from typing import Final

import numpy as np

from xg.diagnostics.lazy_dataclass import dataclass
from xg.sharding.local import ShardSpec
from xg.verify.rank_comparison import window
from xg_runtime.module import Array
from xg_runtime.ranks.grid import Grid
from xg_torch.compare.agreeing import in_shape, off

NEARER: Final = 0.5  # how far off a sum is beside its terms, to be what was meant


@dataclass(frozen=True, slots=True, eq=False)
class WholeArray:
    """A tensor of all ranks in a shape of ours; `holder` is the rank that each number is from.

    With `is_terms` each rank has a term of a sum, and the array is one of these.
    """

    array: Array
    holder: Array
    is_terms: bool = False

    def wrong_ranks(self, ours: Array, tolerance: float, total: float = 0.0) -> tuple[int, ...]:
        """The ranks whose own numbers differ; all that hold some where none does by itself."""
        ranks = [int(rank) for rank in np.unique(self.holder)]
        parts = {rank: self.holder == rank for rank in ranks}
        wrong = [
            r for r, own in parts.items() if off(self.array[own], ours[own], total) > tolerance
        ]
        return tuple(wrong or ranks)


@dataclass(frozen=True, slots=True, eq=False)
class RankArrays:
    """The parts of one tensor, by rank; of copies that of rank `seen_by` counts."""

    parts: Sequence[Array]
    mesh: Mapping[str, int]
    seen_by: int = 0

    def joined(self, cuts: ShardSpec) -> WholeArray:
        """The tensor that is cut so."""
        grid, shape = Grid(dict(self.mesh)), list(self.parts[0].shape)
        for axis, over, *_ in cuts:
            shape[axis] *= grid.size(over)
        whole, holder = np.empty(shape, self.parts[0].dtype), np.zeros(shape, np.int64)
        cut = {axis for _, over, *_ in cuts for axis in grid.axes(over)}
        at = grid.coordinates(self.seen_by)
        for number, part in enumerate(self.parts):
            place = grid.coordinates(number)
            if all(place[axis] == at[axis] for axis in self.mesh if axis not in cut):
                where = window(part.shape, cuts, place, self.mesh)
                whole[where], holder[where] = part, number
        return WholeArray(whole, holder)

    def like(self, ours: Array) -> WholeArray | None:
        """The tensor in the shape of ours, cut as brings it nearest; None where nothing fits."""
        best: WholeArray | None = None
        for cuts in self._ways(ours.size):
            found = _shaped(self.joined(cuts), ours.shape)
            if found is not None and (
                best is None or off(found.array, ours) < off(best.array, ours)
            ):
                uncut = [axis for axis in self.mesh if axis not in {over for _, over, *_ in cuts}]
                best = WholeArray(
                    found.array, found.holder, self._are_terms(found, ours, cuts, uncut)
                )
        return best

    def _ways(self, size: int) -> Iterator[ShardSpec]:
        """The cuts that give a tensor of so many numbers."""
        first = self.parts[0]
        if any(part.shape != first.shape for part in self.parts):
            return
        axes = [axis for axis, ranks in self.mesh.items() if ranks > 1]
        for count in range(len(axes) + 1):
            for over in combinations(axes, count):
                if first.size * prod(self.mesh[axis] for axis in over) == size:
                    for places in product(range(-first.ndim, 0), repeat=count):
                        yield tuple(zip(places, over, strict=True))

    def _are_terms(
        self, found: WholeArray, ours: Array, cuts: ShardSpec, uncut: Sequence[str]
    ) -> bool:
        """Whether the sum over ranks that should be copies is much nearer than a copy."""
        if ours.dtype.kind != "f":
            return False
        grid, apart = Grid(dict(self.mesh)), off(found.array, ours)
        for count in range(1, len(uncut) + 1):
            for over in combinations(uncut, count):
                groups = (grid.group(rank, "*".join(over)) for rank in range(len(self.parts)))
                sums = [np.sum([self.parts[each] for each in group], axis=0) for group in groups]
                together = RankArrays(sums, self.mesh, self.seen_by).joined(cuts)
                shaped = _shaped(together, ours.shape)
                if shaped is not None and off(shaped.array, ours) < NEARER * apart:
                    return True
        return False


def _shaped(found: WholeArray, shape: tuple[int, ...]) -> WholeArray | None:
    array, holder = in_shape(found.array, shape), in_shape(found.holder, shape)
    return None if array is None or holder is None else WholeArray(array, holder)
