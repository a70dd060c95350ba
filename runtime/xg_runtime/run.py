"""One run of a program on given arrays: outputs, and gradients when cotangents are given.

    found = run(module, params, inputs)                              {"Y": …}
    found = run(module, params, inputs, d_outputs={"Y": …})          {"Y": …, "d/X": …, "d/W": …}

Results are keyed by diagram names; a gradient is `d/` and the name of its tensor.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import DTypeLike

from xg_runtime.errors import InputError, RunError
from xg_runtime.module import Array, Arrays, Module, is_float
from xg_runtime.random import fold
from xg_runtime.tensorfile import BFLOAT16, Later, Writable, widen_bfloat16

# The expected inputs of a program, and the check of given arrays against them.
#
#     fit(arrays, {"X": Expected(("B", "S", 64)), "ids": Expected(("B", "S"), below=256)}, ...)
#
# An axis is a number or a symbol; a symbol gets its size from `sizes` or from the first array that
# has it, and all others must agree. Floats of any width become the run's dtype, ids become int64;
# nothing else is converted.


@dataclass(frozen=True)
class Expected:
    """One array a program takes: its axes and, for integers, the range [0, below) of its values.

    `ignored` is the one id outside the range that means "no target here".
    """

    axes: tuple[int | str, ...]
    below: int | None = None
    ignored: int | None = None

    def __str__(self) -> str:
        """Return the axes as the language writes them."""
        return f"[{', '.join(map(str, self.axes))}]"


def fit(
    arrays: Arrays, expected: Mapping[str, Expected], *, dtype: DTypeLike, source: str
) -> Arrays:
    """Return `arrays` in the order of `expected`; raises InputError.

    `source` says in messages where the arrays come from.
    """
    _check_names(arrays, expected, source)
    known: dict[str, tuple[int, str]] = {}
    fitted: Arrays = {}
    for name, want in expected.items():
        where = f"{source}: {name}"
        _check_shape(where, name, arrays[name], want, known)
        to_type = _as_float if want.below is None else _as_ids
        fitted[name] = to_type(where, arrays[name], want, dtype)
    return fitted


def fit_without_copy(
    arrays: Writable, expected: Mapping[str, Expected], *, source: str
) -> dict[str, Array | Later]:
    """Return floats as they are given, no copies of them, in the order of `expected`.

    Raises InputError as `fit` does.
    """
    _check_names(arrays, expected, source)
    known: dict[str, tuple[int, str]] = {}
    for name, want in expected.items():
        where = f"{source}: {name}"
        _check_shape(where, name, arrays[name], want, known)
        _check_float(where, arrays[name], want)
    return {name: arrays[name] for name in expected}


def _check_names(arrays: Writable, expected: Mapping[str, Expected], source: str) -> None:
    missing = [f"{name} {want}" for name, want in expected.items() if name not in arrays]
    extra = [name for name in arrays if name not in expected]
    if missing:
        surplus = f"; it has {_first_of(extra)}" if extra else ""
        raise InputError(f"{source} has no {_first_of(missing)}{surplus}")
    if extra:
        raise InputError(f"{source} has {_first_of(extra)}, which the program does not take")


def _check_shape(
    where: str, name: str, array: Array | Later, want: Expected, known: dict[str, tuple[int, str]]
) -> None:
    """Compare the axes; `known` maps each symbol to its size and the array that set it."""
    shape = f"[{', '.join(map(str, array.shape))}]"
    if len(array.shape) != len(want.axes):
        raise InputError(f"{where} has shape {shape}, expected {want}")
    for size, axis in zip(array.shape, want.axes, strict=True):
        held, by = known.setdefault(axis, (size, name)) if isinstance(axis, str) else (axis, "")
        if size != held:
            because = f" with {axis} = {held} from {by}" if isinstance(axis, str) else ""
            raise InputError(f"{where} has shape {shape}, expected {want}{because}")


def _check_float(where: str, array: Array | Later, want: Expected) -> None:
    if array.dtype.kind != "f" and array.dtype != BFLOAT16:
        raise InputError(f"{where} holds {array.dtype}, expected floats for {want}")


def _as_float(where: str, array: Array, want: Expected, dtype: DTypeLike) -> Array:
    _check_float(where, array, want)
    return np.array(widen_bfloat16(array), dtype=dtype, order="C")


def _as_ids(where: str, array: Array, want: Expected, dtype: DTypeLike) -> Array:
    del dtype  # ids have one type
    expectation = f"expected integers from 0 to {(want.below or 0) - 1}"
    if not np.issubdtype(array.dtype, np.integer):
        raise InputError(f"{where} holds {array.dtype}, {expectation}")
    outside = (array < 0) | (array >= (want.below or 0))
    if want.ignored is not None:
        outside &= array != want.ignored
    if outside.any():
        place = np.argwhere(outside)[0].tolist()
        raise InputError(f"{where}{place} is {array[tuple(place)]}, {expectation}")
    return np.array(array, dtype=np.int64, order="C")


def _first_of(names: list[str]) -> str:
    """Return the names in one line, at most five of them."""
    more = f" and {len(names) - 5} more" if len(names) > 5 else ""
    return ", ".join(names[:5]) + more


# Inputs for a program that was given none, to verify it or to try it.
#
# random_inputs({"X": Expected(("B", "S", 64)), "ids": Expected(("B", "S"), below=256)}, sizes,
# seed) spread_params(params, seed)          parameters moved off the ones and zeros they begin with


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


def run(
    module: Module,
    params: Arrays,
    inputs: Arrays,
    *,
    d_outputs: Arrays | None = None,
    seed: int | None = None,
) -> Arrays:
    """Return the outputs, then the gradients, by name; dropout is on when `seed` is given.

    The arrays must fit the program (`expect.fit`). Raises RunError for a NaN.
    """
    return checked(compute_results(module, params, inputs, d_outputs=d_outputs, seed=seed))


def compute_results(
    module: Module,
    params: Arrays,
    inputs: Arrays,
    *,
    d_outputs: Arrays | None = None,
    seed: int | None = None,
) -> Arrays:
    """Return the results of `run` unchecked; of a rank its parts."""
    with np.errstate(all="ignore"):  # `checked` finds and names a NaN
        outputs, saved = module.forward(params, inputs, seed=seed)
        results = dict(outputs)
        if d_outputs is not None:
            gradients = module.backward(params, saved, d_outputs)
            results |= {f"d/{name}": gradient for name, gradient in gradients.items()}
    return results


def checked(results: Arrays) -> Arrays:
    """Return results as arrays; raises RunError for a NaN, naming the first that has one.

    -∞ may be intended, as where a mask hides a score.
    """
    for name, result in results.items():
        if _has_nan(result):
            raise RunError(f"{name} holds values that are not numbers (NaN)")
    return {name: np.asarray(result) for name, result in results.items()}


def _has_nan(array: Array) -> bool:
    return is_float(array) and bool(np.isnan(array).any())
