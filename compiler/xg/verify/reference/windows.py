"""The reference meaning of windows: element by element, by the position of each."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Protocol

import numpy as np

from xg.ir.prim import Attr, Expr
from xg.ir.tensor import Shape
from xg.ir.window_prims import WINDOW_SIZES
from xg_runtime.module import Array


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
    result = np.zeros(numbers.shape(expr.shape), dtype=x.dtype)
    to, source = np.moveaxis(result, (axis - 1, axis), (0, 1)), np.moveaxis(x, axis, 0)
    windows, elements, positions = np.array([*_elements(expr, numbers)]).reshape(-1, 3).T
    to[windows, elements] = source[positions]
    return result


def overlap(expr: Expr, numbers: KnownSizes, windows: Array) -> Array:
    """The sum of windows where they lie over each other."""
    axis = expr.typed("axis", int)
    result = np.zeros(numbers.shape(expr.shape), dtype=windows.dtype)
    to, source = np.moveaxis(result, axis, 0), np.moveaxis(windows, (axis - 1, axis), (0, 1))
    for j, i, position in _elements(expr, numbers):
        to[position] += source[j, i]
    return result


def _elements(expr: Expr, numbers: KnownSizes) -> Iterator[tuple[int, int, int]]:
    """Window, element and position on the axis, of every element that is not beyond an end."""
    length, count, width, stride, dilation, before = (
        numbers.size(expr.attr(name)) for name in WINDOW_SIZES
    )
    for j, i in product(range(count), range(width)):
        position = j * stride + i * dilation - before
        if 0 <= position < length:
            yield j, i, position
