"""The expected inputs of a program, and the check of given arrays against them.

    fit(arrays, {"X": Expected(("B", "S", 64)), "ids": Expected(("B", "S"), below=256)}, ...)

An axis is a number or a symbol; a symbol gets its size from `sizes` or from the first array that
has it, and all others must agree. Floats of any width become the run's dtype, ids become int64;
nothing else is converted.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import DTypeLike

from xg_runtime.errors import InputError
from xg_runtime.module import Array, Arrays
from xg_runtime.tensor_pieces import Later, Writable
from xg_runtime.tensorfile import BFLOAT16, widen_bfloat16


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
