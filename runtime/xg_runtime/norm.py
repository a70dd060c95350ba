"""The norm over all gradients, and clipping by it (Pascanu, Mikolov, Bengio 2013)."""

import math

import numpy as np

from xg_runtime.module import Array, Arrays


def global_norm(arrays: Arrays) -> float:
    """Return the Euclidean norm over every element of every array, summed in float64."""
    return math.sqrt(squares(arrays))


def squares(arrays: Arrays) -> float:
    """Return the sum of the squares of every element of every array."""
    return math.fsum(_squares(array) for array in arrays.values())


def clip(gradients: Arrays, norm: float, limit: float) -> Arrays:
    """Return `gradients`, scaled to a global norm of `limit` where theirs, `norm`, is above it.

    The 1e-6 is torch's, so that the two agree in every digit.
    """
    factor = limit / (norm + 1e-6)
    if not factor < 1:
        return gradients
    return {name: array * factor for name, array in gradients.items()}


def _squares(array: Array) -> float:
    flat = array.ravel()
    with np.errstate(over="ignore"):
        total = float(np.dot(flat, flat))
    if math.isfinite(total):
        return total
    wide = flat.astype(np.float64)  # float32 overflows from 2e19 on, long before its values do
    return float(np.dot(wide, wide))
