"""Stand-ins for the functions of analysis: one fixed function of residues for each name.

They have none of the properties of exp, log and their like, on purpose: a program that is right
only by such a property does not pass for the same algebra. A softmax shifted by another maximum is
another softmax.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

import numpy as np

from xg.verify.reference.modular.residues import HIDDEN, Field, finite
from xg.verify.reference.random import key as key_of
from xg.verify.reference.random import words
from xg_runtime.module import Array

# Exponentials are 1 … 2²⁰, so that sums of fewer than 1024 of them are positive, as programs trust.
POSITIVE: Final = 2**20


def mix(field: Field, name: str, x: Array) -> Array:
    """A cubic of the residue whose coefficients are drawn by name."""
    finite(x)
    return _cubic(field, name, x)


def exponential(field: Field, x: Array) -> Array:
    """Positive, and 0 of -inf."""
    is_number = x > HIDDEN
    mixed = _cubic(field, "exp", np.where(is_number, x, 0))
    return np.where(is_number, (mixed & (POSITIVE - 1)) + 1, 0)


def _cubic(field: Field, name: str, x: Array) -> Array:
    linear, constant = _coefficients(field.prime, name)
    square = (x % field.prime) ** 2 % field.prime
    return field.wrap((square + linear) % field.prime * x + constant)


@lru_cache(maxsize=1024)
def _coefficients(prime: int, name: str) -> tuple[int, int]:
    linear, constant = words(key_of(prime, name), 2)
    return int(linear) % prime, int(constant) % prime
