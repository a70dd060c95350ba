"""Inputs for a program that was given none, to verify it or to try it.

random_inputs({"X": Expected(("B", "S", 64)), "ids": Expected(("B", "S"), below=256)}, sizes, seed)
spread_params(params, seed)          parameters moved off the ones and zeros they begin with
"""

import math
from collections.abc import Mapping

import numpy as np
from numpy.typing import DTypeLike

from xg_runtime.errors import InputError
from xg_runtime.expect import Expected
from xg_runtime.module import Array, Arrays, is_float
from xg_runtime.random import fold


def random_inputs(
    expected: Mapping[str, Expected],
    sizes: Mapping[str, int],
    seed: int,
    dtype: DTypeLike = np.float64,
) -> Arrays:
    """Return normal floats and uniform ids for every name; `sizes` gives each symbol's number.

    Raises InputError for a symbol without a size.
    """
    return {
        name: _random_array(want, _shape(name, want, sizes), fold(seed, "input", name), dtype)
        for name, want in expected.items()
    }


def spread_params(params: Arrays, seed: int) -> Arrays:
    """Return `params`, each float moved by a normal number, a quarter of the tensor's size.

    At γ = 1 and β = 0 a backward that confuses γ with γ², or forgets β, looks right.
    """
    return {
        name: _perturb(param, fold(seed, "spread", name)) if is_float(param) else param
        for name, param in params.items()
    }


def _perturb(param: Array, key: int) -> Array:
    moved = param + 0.25 * _size(param) * _normal(key, param.shape)
    return np.asarray(moved, dtype=param.dtype)  # of a parameter without axes NumPy makes a number


def _random_array(want: Expected, shape: tuple[int, ...], key: int, dtype: DTypeLike) -> Array:
    if want.below is None:
        return np.asarray(_normal(key, shape), dtype=dtype)
    return np.random.default_rng(key).integers(0, want.below, shape, dtype=np.int64)


def _shape(name: str, want: Expected, sizes: Mapping[str, int]) -> tuple[int, ...]:
    missing = [axis for axis in want.axes if isinstance(axis, str) and axis not in sizes]
    if missing:
        raise InputError(f"{name} {want} has no number for {missing[0]}: give that size")
    return tuple(sizes[axis] if isinstance(axis, str) else axis for axis in want.axes)


def _size(array: Array) -> float:
    """Return the root mean square of `array`, or 1 where all of it is 0."""
    flat = array.ravel()
    return math.sqrt(float(np.dot(flat, flat)) / max(flat.size, 1)) or 1.0


def _normal(key: int, shape: tuple[int, ...]) -> Array:
    return np.asarray(np.random.default_rng(key).standard_normal(shape))
