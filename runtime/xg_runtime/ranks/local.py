"""Operations of a rank by its place on the mesh: nothing is communicated.

Axes are counted from the end (-1 is the last). A result may share memory with its operand.
"""

from __future__ import annotations

from typing import TypeVar

from xg_runtime.ranks.array_ops import Tensor, array_ops
from xg_runtime.ranks.grid import Grid
from xg_runtime.ranks.mesh import current
from xg_runtime.ranks.split_axis import width

T = TypeVar("T")


def rank(over: str) -> int:
    """This rank's place along a mesh axis, from 0."""
    return current().rank(over)


def size(over: str) -> int:
    """The number of ranks along a mesh axis."""
    return current().size(over)


def number() -> int:
    """This rank's number among all: row-major, the first axis outermost."""
    mesh = current()
    return Grid(mesh.sizes).number([mesh.rank(axis) for axis in mesh.sizes])


def shard_slice(x: T, over: str, axis: int) -> T:
    """This rank's slice of a whole: [..., N*n, ...] as [..., n, ...]."""
    array: Tensor = x
    return array if size(over) == 1 else array[_place(array, size(over), axis, over)]


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
    whole[_place(whole, ranks, axis, over)] = array
    return whole


def first_rank_only(x: T, over: str) -> T:
    """A replicated value as terms of a sum: zeros everywhere but on the first rank."""
    array: Tensor = x
    return array if rank(over) == 0 else array_ops(array).zeros(array, tuple(array.shape))


def owns_index(ids: T, over: str, rows: int) -> T:
    """Whether each id is one of the `rows` rows that this rank has of a table cut by rows."""
    places: Tensor = _places(ids, over, rows)
    return (places >= 0) & (places < rows)


def to_local_index(ids: T, over: str, rows: int) -> T:
    """Where in its part of the table this rank has each id; 0 for those it has not."""
    places: Tensor = _places(ids, over, rows)
    return array_ops(places).where((places >= 0) & (places < rows), places)


def _places(ids: Tensor, over: str, rows: int) -> Tensor:
    return ids - rank(over) * rows


def _place(whole: Tensor, ranks: int, axis: int, over: str) -> tuple[slice, ...]:
    """The index of this rank's slice."""
    part = width(whole, ranks, axis, over)
    first = rank(over) * part
    index = [slice(None)] * whole.ndim
    index[axis] = slice(first, first + part)
    return tuple(index)
