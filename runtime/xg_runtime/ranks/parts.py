"""Global tensors and a rank's shards of them, by their cuts.

A cut is an axis, counted from the end, and the mesh axis that cuts it, with its order if that is
`order.ZIGZAG`; of several the outermost is first. With a length behind them the axis is that long,
and the shards have zeros behind it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import TypeVar

from xg_runtime.ranks.array_ops import Tensor, array_ops
from xg_runtime.ranks.collectives import all_gather
from xg_runtime.ranks.grid import chunks_of, parts_of
from xg_runtime.ranks.local import rank, shard_slice, size
from xg_runtime.ranks.mesh import current

T = TypeVar("T", bound=Tensor)
Cut = tuple[int, str] | tuple[int, str, int]
Cuts = Sequence[Cut]


def local_shard(x: T, cuts: Cuts) -> T:
    """This rank's shard of a global array, which it does not keep alive; nothing is sent."""
    part = _pad_array(x, cuts)
    for axis, over, *_ in cuts:
        part = shard_slice(part, over, axis)
    return array_ops(x).contiguous_copy(part) if cuts else x


def gather_shard(x: T, cuts: Cuts) -> T:
    """The global array of this rank's shard; every rank must call it."""
    for axis, over, *_ in reversed(cuts):
        x = all_gather(x, over, axis)
    return x[tuple(slice(n) for n in _true_shape(x.shape, cuts))] if lengths(cuts) else x


def lengths(cuts: Cuts) -> dict[int, int]:
    """The axes that are padded, each with its true length."""
    return {cut[0]: cut[2] for cut in cuts if len(cut) == 3}


def padded_shape(shape: Sequence[int], cuts: Cuts, sizes: Mapping[str, int]) -> tuple[int, ...]:
    """The shape of a global array with the zeros that ranks can share."""
    whole = list(shape)
    for axis in lengths(cuts):
        parts = prod(sizes[over] for at, over, *_ in cuts if at == axis)
        whole[axis] = -(-whole[axis] // parts) * parts
    return tuple(whole)


def _true_shape(shape: Sequence[int], cuts: Cuts) -> tuple[int, ...]:
    found = list(shape)
    for axis, length in lengths(cuts).items():
        found[axis] = length
    return tuple(found)


def _pad_array(x: T, cuts: Cuts) -> T:
    """Return a global array padded with zeros, so that its cuts divide it evenly."""
    if not lengths(cuts):
        return x
    array: Tensor = x
    whole = array_ops(array).zeros(array, padded_shape(array.shape, cuts, current().sizes))
    whole[tuple(slice(n) for n in array.shape)] = array
    return whole


def mesh_places(*cuts: tuple[int, str]) -> list[tuple[int, tuple[int, ...], int]]:
    """For every cut the axis, the chunks of it that this rank has, and the number of all."""
    return [
        (axis, chunks_of(over, rank(over), size(over)), size(over) * parts_of(over))
        for axis, over in cuts
    ]


def global_shape(shape: Sequence[int], cuts: Cuts) -> tuple[int, ...]:
    """Return the shape of the global array from the shape of a shard."""
    sizes = list(shape)
    for axis, over, *_ in cuts:
        sizes[axis] *= size(over)
    return _true_shape(sizes, cuts)


def local_shards(arrays: Mapping[str, T], cuts: Mapping[str, Cuts]) -> dict[str, T]:
    """This rank's shards of global arrays, by name; an array without cuts is replicated."""
    return {name: local_shard(array, cuts.get(name, ())) for name, array in arrays.items()}


def gather_shards(arrays: Mapping[str, T], cuts: Mapping[str, Cuts]) -> dict[str, T]:
    """The global arrays of this rank's shards, by name; every rank must call it."""
    return {name: gather_shard(array, cuts.get(name, ())) for name, array in arrays.items()}
