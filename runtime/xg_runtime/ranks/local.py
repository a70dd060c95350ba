"""Operations of a rank by its place on the mesh: nothing is communicated.

Axes are counted from the end (-1 is the last). A result may share memory with its operand.
"""

from __future__ import annotations

from functools import reduce
from operator import add
from typing import TypeVar

from xg_runtime.ranks.array_ops import Tensor, array_ops, width
from xg_runtime.ranks.grid import Grid, chunks_of, parts_of
from xg_runtime.ranks.mesh import current, traced_mesh

T = TypeVar("T")


def rank(over: str) -> int:
    """This rank's place along a mesh axis, from 0."""
    return (traced_mesh() or current()).rank(over)


def size(over: str) -> int:
    """The number of ranks along a mesh axis."""
    return (traced_mesh() or current()).size(over)


def number() -> int:
    """This rank's number among all: row-major, the first axis outermost."""
    mesh = current()
    return Grid(mesh.sizes).number([mesh.rank(axis) for axis in mesh.sizes])


def shard_slice(x: T, over: str, axis: int) -> T:
    """This rank's slice of a whole: [..., N*n, ...] as [..., n, ...]."""
    array: Tensor = x
    if size(over) == 1:
        return array
    parts = [array[each] for each in _places(array, over, axis)]
    return parts[0] if len(parts) == 1 else array_ops(array).join(parts, axis)


def pad_from_shard(x: T, over: str, axis: int) -> T:
    """Zeros everywhere but in this rank's slice: [..., n, ...] as [..., N*n, ...].

    The transpose of `shard_slice`: the sum over ranks puts the slices together.
    """
    array: Tensor = x
    ranks = size(over)
    if ranks == 1:
        return array
    shape = list(array.shape)
    shape[axis] *= ranks
    whole = array_ops(array).zeros(array, tuple(shape))
    places = _places(whole, over, axis)
    for number, place in enumerate(places):
        whole[place] = array[_chunk(array, number, len(places), axis, over)]
    return whole


def first_rank_only(x: T, over: str) -> T:
    """A replicated value as terms of a sum: zeros everywhere but on the first rank."""
    array: Tensor = x
    return array if rank(over) == 0 else array_ops(array).zeros(array, tuple(array.shape))


def owns_index(ids: T, over: str, rows: int) -> T:
    """Whether each id is one of the `rows` rows that this rank has of a table cut by rows."""
    found = [held for held, _ in _found(ids, over, rows)]
    return found[0] if len(found) == 1 else found[0] | found[1]


def to_local_index(ids: T, over: str, rows: int) -> T:
    """Where in its part of the table this rank has each id; 0 for those it has not."""
    where = array_ops(ids).where
    return reduce(add, (where(held, place) for held, place in _found(ids, over, rows)))


def _found(ids: Tensor, over: str, rows: int) -> list[tuple[Tensor, Tensor]]:
    """For each chunk of this rank's rows which ids are there, and at which of its rows."""
    length = rows // parts_of(over)
    starts = (chunk * length for chunk in chunks_of(over, rank(over), size(over)))
    inside = [ids - start for start in starts]
    held = [(places >= 0) & (places < length) for places in inside]
    return [(held[k], places + k * length if k else places) for k, places in enumerate(inside)]


def _places(whole: Tensor, over: str, axis: int) -> list[tuple[slice, ...]]:
    """The index of each of this rank's chunks."""
    chunks, count = chunks_of(over, rank(over), size(over)), size(over) * parts_of(over)
    return [_chunk(whole, chunk, count, axis, over) for chunk in chunks]


def _chunk(whole: Tensor, chunk: int, count: int, axis: int, over: str) -> tuple[slice, ...]:
    """Return the index of chunk number `chunk` of `count`."""
    length = width(whole, count, axis, over)
    index = [slice(None)] * whole.ndim
    index[axis] = slice(chunk * length, (chunk + 1) * length)
    return tuple(index)
