"""The reference meaning of windows: element by element, by the position of each."""

from __future__ import annotations

from functools import lru_cache
from typing import Final, Protocol

import numpy as np

from xg.ir.prim import Attr, Expr
from xg.ir.tensor import Shape
from xg.ir.window_prims import WINDOW_SIZES
from xg_runtime.module import Array

REMEMBERED: Final = 256  # kinds of windows: a network has few, many times over


class KnownSizes(Protocol):
    """The numbers of sizes."""

    def size(self, dim: Attr) -> int:
        """The number of a size."""
        ...

    def shape(self, shape: Shape) -> tuple[int, ...]:
        """The numbers of a shape."""
        ...


def window(expr: Expr, numbers: KnownSizes, x: Array) -> Array:
    """Each position's neighbourhood, 0 beyond the ends."""
    axis = expr.typed("axis", int)
    positions = _positions(expr, numbers)
    one = [1 if i == axis % x.ndim else length for i, length in enumerate(x.shape)]
    beyond = np.zeros(one, x.dtype)
    return np.concatenate((x, beyond), axis).take(positions, axis)


def overlap(expr: Expr, numbers: KnownSizes, windows: Array) -> Array:
    """The sum of windows where they lie over each other."""
    axis = expr.typed("axis", int)
    result = np.zeros(numbers.shape(expr.shape), dtype=windows.dtype)
    to, source = np.moveaxis(result, axis, 0), np.moveaxis(windows, (axis - 1, axis), (0, 1))
    for (j, i), position in np.ndenumerate(_positions(expr, numbers)):
        if position < len(to):
            to[position] += source[j, i]
    return result


def _positions(expr: Expr, numbers: KnownSizes) -> Array:
    """The position of each element (window, then element); the first beyond the axis for none."""
    return _placed(*(numbers.size(expr.attr(name)) for name in WINDOW_SIZES))


@lru_cache(REMEMBERED)
def _placed(length: int, count: int, width: int, stride: int, dilation: int, before: int) -> Array:
    found = np.array(
        [[j * stride + i * dilation - before for i in range(width)] for j in range(count)],
        dtype=int,
    ).reshape(count, width)
    found[(found < 0) | (found >= length)] = length
    found.flags.writeable = False  # it is the same array each time
    return found
