"""The place of a rank's part in a global tensor.

A tensor's cuts say which axes of the mesh cut which of its own: `[("N_T", -1)]`, axes of the tensor
counted from the end, the outermost first where several cut one. Along every other axis of the mesh
the ranks have replicas, and the first of them writes for all. Where a cut has a length behind it
parts are padded with zeros; what is written is not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import TypeAlias

import numpy as np

from xg_runtime.module import Array
from xg_runtime.ranks.grid import Grid

Cuts: TypeAlias = tuple[tuple[str, int], ...]
RankCuts: TypeAlias = tuple[tuple[str, int] | tuple[str, int, int], ...]
Region: TypeAlias = tuple[tuple[int, int], ...]  # first and behind the last place, for each axis


@dataclass(frozen=True)
class ShardLayout:
    """A whole tensor's shape, and how it is cut.

    It is on all ranks of a mesh axis, unless `at` names the place that has it: a pipeline's stage.
    """

    shape: tuple[int, ...]
    cuts: Cuts = ()
    at: Cuts = ()

    @classmethod
    def of_part(cls, part: Array, cuts: RankCuts, grid: Grid, at: Cuts = ()) -> ShardLayout:
        """Return the layout of a global tensor, given the part that one rank has."""
        shape = list(part.shape)
        for mesh_axis, axis, *_ in cuts:
            shape[axis] *= grid.size(mesh_axis)
        for _, axis, *length in cuts:
            shape[axis] = (*length, shape[axis])[0]
        return cls(tuple(shape), tuple((over, axis) for over, axis, *_ in cuts), at)

    @property
    def whole(self) -> Region:
        """All of it."""
        return tuple((0, width) for width in self.shape)

    def region(self, grid: Grid, rank: int, *, even: bool = False) -> Region:
        """The region of a rank; raises ValueError where all have to be `even` and are not."""
        at = grid.coordinates(rank)
        place, count = [0] * len(self.shape), [1] * len(self.shape)
        for mesh_axis, axis in self.cuts:
            place[axis] = place[axis] * grid.size(mesh_axis) + at[mesh_axis]
            count[axis] *= grid.size(mesh_axis)
        for width, parts in zip(self.shape, count, strict=True):
            if even and width % parts:
                raise ValueError(f"{list(self.shape)} cannot be cut into {parts} equal parts")
        found: list[tuple[int, int]] = []
        for at_, width, parts in zip(place, self.shape, count, strict=True):
            part = -(-width // parts)
            found.append((min(at_ * part, width), min((at_ + 1) * part, width)))
        return tuple(found)

    def is_written_by(self, grid: Grid, rank: int) -> bool:
        """Whether a rank writes for those that have the same part."""
        cutting = {mesh_axis for mesh_axis, _ in self.cuts}
        places = dict(self.at)
        found = grid.coordinates(rank).items()
        return all(axis in cutting or at == places.get(axis, 0) for axis, at in found)


def layouts_of(
    parts: Mapping[str, Array], cuts: Mapping[str, RankCuts], grid: Grid
) -> dict[str, ShardLayout]:
    """Return layouts from one rank's `parts`; a tensor without `cuts` is whole on every rank."""
    return {
        name: ShardLayout.of_part(part, cuts.get(name, ()), grid) for name, part in parts.items()
    }


def without_pads(
    parts: Mapping[str, Array], layouts: Mapping[str, ShardLayout], grid: Grid, rank: int
) -> dict[str, Array]:
    """The parts of a rank as they are written: padding is not."""
    found: dict[str, Array] = {}
    for name, part in parts.items():
        true = widths(layouts[name].region(grid, rank))
        found[name] = part if true == part.shape else part[tuple(map(slice, true))]
    return found


def with_pads(part: Array, layout: ShardLayout, grid: Grid) -> Array:
    """A part as its rank has it, padded to the width of the others."""
    shape, at = list(part.shape), range(-part.ndim, 0)
    for axis in at:
        parts = prod(grid.size(over) for over, cut in layout.cuts if cut == axis)
        shape[axis] = -(-layout.shape[axis] // parts)
    if tuple(shape) == part.shape:
        return part
    padded = np.zeros(shape, part.dtype)
    padded[tuple(map(slice, part.shape))] = part
    return padded


def overlap(one: Region, other: Region) -> Region | None:
    """Return the region that two regions share; None if they are disjoint."""
    both = tuple((max(a, c), min(b, d)) for (a, b), (c, d) in zip(one, other, strict=True))
    return both if all(first < last for first, last in both) or _is_empty(one) else None


def relative_index(region: Region, outer: Region) -> tuple[slice, ...]:
    """The index of a region in an array that holds `outer`."""
    return tuple(
        slice(first - start, last - start)
        for (first, last), (start, _) in zip(region, outer, strict=True)
    )


def widths(region: Region) -> tuple[int, ...]:
    """The shape of a region."""
    return tuple(last - first for first, last in region)


def _is_empty(region: Sequence[tuple[int, int]]) -> bool:
    return any(first == last for first, last in region)
