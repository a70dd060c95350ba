"""The few operations of rank code on arrays, for NumPy arrays and for torch tensors."""

from __future__ import annotations

from functools import cache
from typing import Any, Protocol, TypeAlias

import numpy as np

from xg_runtime.errors import InputError
from xg_runtime.ranks.grid import chunks_of, parts_of

Tensor: TypeAlias = Any  # a NumPy array or a torch tensor; this package does not import torch


class ArrayOps(Protocol):
    """Operations on arrays of one kind."""

    def contiguous_copy(self, x: Tensor) -> Tensor:
        """Return a copy, contiguous."""
        ...

    def stack(self, parts: list[Tensor]) -> Tensor:
        """Return the parts along a new leading axis."""
        ...

    def join(self, parts: list[Tensor], axis: int) -> Tensor:
        """Return the parts one after the other along an axis."""
        ...

    def flat(self, parts: list[Tensor]) -> Tensor:
        """Return all elements of all parts, one after the other."""
        ...

    def move(self, x: Tensor, source: int, target: int) -> Tensor:
        """Return `x` with one axis at another place."""
        ...

    def maximum(self, a: Tensor, b: Tensor) -> Tensor:
        """Return the larger of two, element by element."""
        ...

    def zeros(self, like: Tensor, shape: tuple[int, ...]) -> Tensor:
        """Return zeros of the type, and on the device, of `like`."""
        ...

    def where(self, mask: Tensor, a: Tensor) -> Tensor:
        """Return `a` where the mask holds, else 0."""
        ...


class _NumPyOps:
    def contiguous_copy(self, x: Tensor) -> Tensor:
        return np.array(x, order="C")

    def stack(self, parts: list[Tensor]) -> Tensor:
        return np.stack(parts)

    def join(self, parts: list[Tensor], axis: int) -> Tensor:
        return np.concatenate(parts, axis)

    def flat(self, parts: list[Tensor]) -> Tensor:
        return np.concatenate([part.reshape(-1) for part in parts])

    def move(self, x: Tensor, source: int, target: int) -> Tensor:
        order = list(range(x.ndim))  # `np.moveaxis` takes much longer
        order.insert(target, order.pop(source))
        return x.transpose(order)

    def maximum(self, a: Tensor, b: Tensor) -> Tensor:
        return np.maximum(a, b)

    def zeros(self, like: Tensor, shape: tuple[int, ...]) -> Tensor:
        return np.zeros(shape, like.dtype)

    def where(self, mask: Tensor, a: Tensor) -> Tensor:
        return np.where(mask, a, np.zeros((), a.dtype))


_NUMPY = _NumPyOps()
_ARRAYS = (np.ndarray, np.generic)  # a tuple: `torch.compile` does not trace `|` of types


def is_array(x: Tensor) -> bool:
    """Whether this is NumPy's."""
    return type(x) is np.ndarray or isinstance(x, _ARRAYS)


@cache
def type_name(dtype: Tensor) -> str:
    """The name of an element type: float32, whether NumPy's or torch's."""
    return str(dtype).removeprefix("torch.")


def array_ops(x: Tensor) -> ArrayOps:
    """The operations for arrays like `x`."""
    if is_array(x):
        return _NUMPY
    from xg_runtime.ranks.torch_ops import TorchOps

    return TorchOps()


# An axis as ranks times what each of them has: cut, to a leading axis, and joined again.


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
