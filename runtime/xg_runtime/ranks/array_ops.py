"""The few operations of rank code on arrays, for NumPy arrays and for torch tensors."""

from __future__ import annotations

from functools import cache
from typing import Any, Protocol, TypeAlias

import numpy as np

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
