"""When two gradients agree.

a and b agree when ‖a - b‖ ≤ tol · (max(‖a‖, ‖b‖) + ‖all gradients‖ / 100), so that a part in
tol is seen in every gradient that is not tiny beside the others.
"""

from typing import Final

import numpy as np

from xg_runtime.module import Array

FLOOR: Final = 1e-2  # the part of ‖all gradients‖ that counts for each

# The tol of every proof, in float64.
DIFFERENCES: Final = 1e-6  # a derived gradient and finite differences
SAME_PROGRAM: Final = 1e-10  # one program computed twice: by a backend, the interpreter, ranks
OTHER_PROGRAM: Final = 1e-8  # an imported program and the model that it was made from
OTHER_FLOAT32: Final = 1e-5  # where that model has a table in float32 that the program has exactly


def scale(a: Array, b: Array, total: float) -> float:
    """Return what ‖a - b‖ is measured by; `total` is the norm over all gradients."""
    return max(_norm(a), _norm(b)) + FLOOR * total


def error(a: Array, b: Array, total: float) -> float:
    """Return the number that must be at most tol: NaN, which never is, where a or b has one."""
    distance = _norm(a - b)
    return distance / scale(a, b, total) if distance else 0.0


def _norm(array: Array) -> float:
    return float(np.linalg.norm(np.ravel(array)))
