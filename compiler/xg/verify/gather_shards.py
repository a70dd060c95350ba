"""Reassemble a sharded array, and report the first rank whose shard is wrong."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from xg.diagnostics.lazy_dataclass import dataclass
from xg.ir.mesh_axes import axes_over, is_zigzag
from xg.sharding.shard_spec import ShardSpec
from xg_runtime.module import Array
from xg_runtime.ranks.grid import Grid
from xg_runtime.ranks.parts import lengths, padded_shape

Window = tuple[slice | Array, ...]


@dataclass(frozen=True, slots=True)
class Gathered:
    """A reassembled array; `unlike` is the first rank with other bits than one of the same shard.

    Where shards differ in shape the array is the first such shard.
    """

    array: Array
    unlike: int | None


def gather_shards(
    parts: Sequence[Array], where: ShardSpec, mesh: Mapping[str, int], counting: int | None = None
) -> Gathered:
    """The global array of all ranks' shards; of replicas the last rank's, or that of `counting`."""
    shape = list(parts[0].shape)
    grid = Grid(dict(mesh))
    for axis, over, *_ in where:
        shape[axis] *= grid.size(over)
    whole, filled = np.zeros(shape, parts[0].dtype), set[tuple[int, ...]]()
    unlike: int | None = None
    for number, part in enumerate(parts):
        if part.shape != parts[0].shape:
            return Gathered(part, number)
        at = grid.coordinates(number)
        mine = window(part.shape, where, at, mesh)
        same = np.array_equal(whole[mine], part, equal_nan=part.dtype.kind == "f")
        corner = tuple(at[axis] for _, over, *_ in where for axis in grid.axes(over))
        if corner in filled and not same and unlike is None:
            unlike = number
        filled.add(corner)
        whole[mine] = part
    if counting is not None:
        at = grid.coordinates(counting)
        whole[window(parts[0].shape, where, at, mesh)] = parts[counting]
    for axis, length in lengths(where).items():
        whole = whole.take(range(length), axis)
    return Gathered(whole, unlike)


def furthest(
    parts: Sequence[Array], wanted: Array, where: ShardSpec, mesh: Mapping[str, int]
) -> int:
    """The rank whose shard is furthest from that of an expected global array of the same shape."""
    grid, true = Grid(dict(mesh)), wanted
    wanted = np.zeros(padded_shape(true.shape, where, mesh), true.dtype)
    wanted[tuple(map(slice, true.shape))] = true

    def distance(number: int) -> float:
        part = parts[number]
        mine = wanted[window(part.shape, where, grid.coordinates(number), mesh)]
        with np.errstate(invalid="ignore"):  # of two infinities
            apart = np.where(part == mine, 0.0, np.subtract(part, mine, dtype=np.float64))
        return float(np.linalg.norm(np.nan_to_num(apart, nan=np.inf)))

    return max(range(len(parts)), key=distance)


def window(
    shape: Sequence[int], where: ShardSpec, at: Mapping[str, int], mesh: Mapping[str, int]
) -> Window:
    """The index of the part of a rank at these coordinates in the global array."""
    place = [0] * len(shape)
    for axis, over, *_ in where:
        if is_zigzag(over):
            return _chunks(shape, where, at, mesh)
        place[axis] = place[axis] * mesh[over] + at[over]
    return tuple(slice(p * n, p * n + n) for p, n in zip(place, shape, strict=True))


def _chunks(
    shape: Sequence[int], where: ShardSpec, at: Mapping[str, int], mesh: Mapping[str, int]
) -> Window:
    """The same where ranks have two chunks of an axis: from the innermost cut to the outermost."""
    along, length = [np.arange(n) for n in shape], list(shape)
    for axis, over, *_ in reversed(where):
        (name,) = axes_over(over)
        ranks, rank = mesh[name], at[name]
        if is_zigzag(over):
            half = length[axis] // 2
            far = (2 * ranks - 2 - 2 * rank) * half  # from the first half of a rank to the second
            along[axis] = along[axis] + rank * half + np.where(along[axis] < half, 0, far)
        else:
            along[axis] = along[axis] + rank * length[axis]
        length[axis] *= ranks
    return np.ix_(*along)
