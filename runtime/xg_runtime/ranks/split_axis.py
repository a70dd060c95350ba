"""An axis as ranks times what each of them has: cut, to a leading axis, and joined again."""

from __future__ import annotations

from xg_runtime.errors import InputError
from xg_runtime.ranks.array_ops import Tensor, array_ops


def width(x: Tensor, ranks: int, axis: int, over: str) -> int:
    """The length of one rank's part of an axis (from the end); InputError if it does not divide."""
    whole = int(x.shape[axis])
    if whole % ranks:
        raise InputError(
            f"axis {axis} of {list(x.shape)} cannot be cut into {over} = {ranks} equal parts"
        )
    return whole // ranks


def cut(x: Tensor, ranks: int, axis: int, over: str) -> Tensor:
    """[..., N*n, ...] as [N, ..., n, ...]: the parts of an axis, along a leading one."""
    part = width(x, ranks, axis, over)
    place = axis + x.ndim
    shape = tuple(x.shape)
    apart = x.reshape(*shape[:place], ranks, part, *shape[place + 1 :])
    return array_ops(x).move(apart, place, 0)


def join(parts: Tensor, axis: int) -> Tensor:
    """[N, ..., n, ...] as [..., N*n, ...]: `cut` undone."""
    place = axis + parts.ndim - 1
    apart = array_ops(parts).move(parts, 0, place)
    shape = tuple(apart.shape)
    return apart.reshape(*shape[:place], shape[place] * shape[place + 1], *shape[place + 2 :])
