"""Two arrays beside each other: in one shape, and how far apart."""

from __future__ import annotations

import numpy as np

from xg_runtime import agreement
from xg_runtime.module import Array


def off(theirs: Array, ours: Array, total: float = 0.0) -> float:
    """How far two arrays are from each other; infinite where only one has a number."""
    finite = np.isfinite(ours)
    if not np.array_equal(finite, np.isfinite(theirs)):
        return float("inf")
    return agreement.error(np.where(finite, theirs, 0.0), np.where(finite, ours, 0.0), total)


def in_shape(array: Array, shape: tuple[int, ...]) -> Array | None:
    """An array in another shape: without axes of one, with rows together, or sequence first.

    Or with channels in front of their places, as torch has pictures.
    """
    if array.shape == shape:
        return array
    if array.size != int(np.prod(shape)):
        return None
    squeezed, wanted = ([n for n in each if n != 1] for each in (array.shape, shape))
    if squeezed == wanted or array.shape[-1:] == shape[-1:] == array.shape[1:]:
        return array.reshape(shape)
    if array.ndim == len(shape) > 2 and (array.shape[1], array.shape[0], *array.shape[2:]) == shape:
        return array.swapaxes(0, 1)
    if array.ndim == len(shape) > 2 and (array.shape[0], *array.shape[2:], array.shape[1]) == shape:
        return np.moveaxis(array, 1, -1)
    return None
