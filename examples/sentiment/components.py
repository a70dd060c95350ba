"""Principal components by power iteration with deflation (seed 003).

    rows = standardised(counts)               every row with mean 0 and deviation 1
    found = principal(covariance(rows), 50)   directions and their variances
    vectors = project(rows, found)            a vector of 50 numbers for each column

The rows are the variables: their covariance is [N, N], and its directions combine rows. So it is
the columns that get shorter, Y = Zᵀ V. The seed writes Y = X V, which would combine columns, and
those are not standardised. Rows and columns of counts of neighbors are the same words.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np

from xg_runtime.errors import InputError
from xg_runtime.module import Array
from xg_runtime.random import fold, uniform

TOLERANCE: Final = 1e-7  # of ‖A v - λ v‖ / λ
MOST: Final = 5000  # iterations for one component: nearly equal variances need not be separated
_NOTHING: Final = 1e-10  # of all variance: rounding


@dataclass(frozen=True)
class Components:
    """Directions [N, K], columns of length 1 at right angles, and their variances [K], falling."""

    directions: Array
    variances: Array


def standardised(rows: Array) -> Array:
    """Return rows [N, n] with mean 0 and standard deviation 1; a row of equal numbers is 0."""
    centered = rows - rows.mean(axis=1, keepdims=True)
    deviation = centered.std(axis=1, keepdims=True)
    return np.divide(centered, deviation, out=np.zeros_like(centered), where=deviation > 0)


def covariance(rows: Array) -> Array:
    """Return Σ x y / n between centered rows [N, n]: [N, N]."""
    return rows @ rows.T / rows.shape[1]


def principal(matrix: Array, count: int, *, seed: int = 0) -> Components:
    """Return the `count` directions of most variance of a covariance [N, N].

    Each is found by power iteration, then removed: A' = A - λ v vᵀ. A direction's sign is chosen
    so that its largest entry is positive. Raises InputError if there are fewer directions.
    """
    left = np.array(matrix, np.float64)
    least = _NOTHING * float(np.trace(left))
    directions = np.zeros((len(left), count))
    variances = np.zeros(count)
    for place in range(count):
        variance, direction = _iterated(left, _start(len(left), seed, place), least)
        if variance <= least:
            raise InputError(f"there are {place} principal components, not {count}")
        directions[:, place], variances[place] = direction, variance
        left -= variance * np.outer(direction, direction)
    return Components(directions * _signs(directions), variances)


def project(rows: Array, components: Components) -> Array:
    """Return Y = Zᵀ V: the place of every column of `rows` [N, n] on each direction, [n, K]."""
    return rows.T @ components.directions


def _start(length: int, seed: int, place: int) -> Array:
    key = fold(seed, "power", place)
    return np.array([uniform(fold(key, row)) - 0.5 for row in range(length)])


def _iterated(matrix: Array, start: Array, least: float) -> tuple[float, Array]:
    """Return eigenvalue and vector after v ← A v / ‖A v‖, until A v is λ v; or 0, if it is less."""
    direction = start / np.linalg.norm(start)
    variance = 0.0
    for _ in range(MOST):
        image = matrix @ direction
        length = float(np.linalg.norm(image))
        if length <= least:
            return 0.0, direction
        variance = float(direction @ image)
        settled = np.linalg.norm(image - variance * direction) <= TOLERANCE * variance
        direction = image / length
        if settled:
            break
    return variance, direction


def _signs(directions: Array) -> Array:
    largest = np.abs(directions).argmax(axis=0)
    return np.where(np.take_along_axis(directions, largest[None], 0) < 0, -1.0, 1.0)
