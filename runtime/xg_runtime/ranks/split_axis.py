"""An axis as ranks times what each of them has: cut, to a leading axis, and joined again."""

from __future__ import annotations

from xg_runtime.errors import InputError
from xg_runtime.ranks.array_ops import Tensor, array_ops
from xg_runtime.ranks.order import chunks_of, parts_of


def width(x: Tensor, chunks: int, axis: int, over: str) -> int:
    """The length of one chunk of an axis (from the end); InputError if it does not divide."""
    whole = int(x.shape[axis])
    if whole % chunks:
        parts = parts_of(over)
        cut = f"{over}, {parts} * {chunks // parts}," if parts > 1 else f"{over} = {chunks}"
        raise InputError(f"axis {axis} of {list(x.shape)} cannot be cut into {cut} equal parts")
    return whole // chunks


def cut(x: Tensor, ranks: int, axis: int, over: str) -> Tensor:
    """[..., N*n, ...] as [N, ..., n, ...]: the parts of an axis, along a leading one."""
    if parts_of(over) > 1:
        x = _reorder_chunks(x, _of_ranks(over, ranks), axis, over)
    part = width(x, ranks, axis, over)
    place = axis + x.ndim
    shape = tuple(x.shape)
    apart = x.reshape(*shape[:place], ranks, part, *shape[place + 1 :])
    return array_ops(x).move(apart, place, 0)


def join(parts: Tensor, axis: int, over: str) -> Tensor:
    """[N, ..., n, ...] as [..., N*n, ...]: `cut` undone."""
    place = axis + parts.ndim - 1
    apart = array_ops(parts).move(parts, 0, place)
    shape = tuple(apart.shape)
    whole = apart.reshape(*shape[:place], shape[place] * shape[place + 1], *shape[place + 2 :])
    if parts_of(over) == 1:
        return whole
    order = _of_ranks(over, parts.shape[0])
    return _reorder_chunks(whole, [order.index(chunk) for chunk in range(len(order))], axis, over)


def _of_ranks(over: str, ranks: int) -> list[int]:
    """The chunks of all ranks, one rank's after the other's."""
    return [chunk for rank in range(ranks) for chunk in chunks_of(over, rank, ranks)]


def _reorder_chunks(x: Tensor, order: list[int], axis: int, over: str) -> Tensor:
    """The chunks of an axis in another order."""
    part = width(x, len(order), axis, over)
    place = axis + x.ndim
    shape = tuple(x.shape)
    apart = x.reshape(*shape[:place], len(order), part, *shape[place + 1 :])
    return apart[(*(slice(None),) * place, order)].reshape(shape)
