"""When two gradients agree.

a and b agree when ‖a - b‖ ≤ tol · (max(‖a‖, ‖b‖) + ‖all gradients‖ / 100), so that a part in
tol is seen in every gradient that is not tiny beside the others.
"""

from typing import Final, NamedTuple

import numpy as np

from xg_runtime.module import Array

FLOOR: Final = 1e-2  # the part of ‖all gradients‖ that counts for each
PART: Final = 2**18  # numbers of large arrays that are compared at once

# The tol of every proof, in float64.
DIFFERENCES: Final = 1e-6  # a derived gradient and finite differences
SAME_PROGRAM: Final = 1e-10  # one program computed twice: by a backend, the interpreter, ranks
OTHER_PROGRAM: Final = 1e-8  # an imported program and the model that it was made from
OTHER_FLOAT32: Final = 1e-5  # where that model has a table in float32 that the program has exactly


def scale(a: Array, b: Array, total: float) -> float:
    """Return what ‖a - b‖ is measured by; `total` is the norm over all gradients."""
    return _scale(_norm(a), _norm(b), total)


class Apart(NamedTuple):
    """How far two gradients are from each other, and how long they are."""

    distance: float
    first: float
    second: float

    @classmethod
    def of(cls, a: Array, b: Array) -> "Apart":
        """Measure two arrays."""
        return cls(_distance(a, b), _norm(a), _norm(b))

    def error(self, total: float) -> float:
        """Return the number that must be at most tol: NaN, which never is, where one has one."""
        return self.distance / _scale(self.first, self.second, total) if self.distance else 0.0


def error(a: Array, b: Array, total: float) -> float:
    """Return `Apart.error` of two arrays."""
    return Apart.of(a, b).error(total)


def _distance(a: Array, b: Array) -> float:
    """‖a - b‖; of large arrays row by row, since memory takes longer to get than to read."""
    if a.size <= PART or a.shape != b.shape:
        return _norm(a - b)
    rows = max(1, PART * len(a) // a.size)
    parts = (slice(first, first + rows) for first in range(0, len(a), rows))
    return _norm(np.array([_norm(a[part] - b[part]) for part in parts]))


def _scale(first: float, second: float, total: float) -> float:
    return max(first, second) + FLOOR * total


def _norm(array: Array) -> float:
    return float(np.linalg.norm(np.ravel(array, order="K")))  # a transposed one is not copied
