"""Functions that a generated module contains where it needs them: each needs nothing but NumPy.

They are ordinary, tested code, whose text is copied. Names are those of generated code.
"""

# What may be anything is narrowed to a dict or an array of anything:
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
DType = Any


def integers(ids: Array, name: str, below: int | None, *left_out: int) -> Array:
    """Widen integers to int64, and refuse those outside 0 … below - 1.

    NumPy counts negatives from the end. In a narrow type `k - 1` and `k * k` wrap.
    """
    if ids.dtype.kind not in "iub":
        raise ValueError(f"{name} should be integers, not {ids.dtype}")
    wide = ids.astype(np.int64, copy=False)
    if below is None:
        return wide
    outside = (wide < 0) | (wide >= below)
    for number in left_out:
        outside &= wide != number
    if outside.any():
        place = [int(axis) for axis in np.argwhere(outside)[0]]
        found = f"{name}{place} is {int(ids[tuple(place)])}"
        raise ValueError(f"{found}, expected integers from 0 to {below - 1}")
    return wide


def in_float32(compute: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate a pass, so that it computes half types in float32, then rounds.

    NumPy adds float16 numbers in float16, where 2048 + 1 is 2048.
    """

    @wraps(compute)
    def wide(*given: Any, **words: Any) -> Any:
        dicts = [each for each in given if isinstance(each, dict)]
        kinds = [x.dtype for each in dicts for x in each.values() if is_float(x)]
        half = kinds[0] if kinds else np.dtype(np.float32)
        if half.itemsize != 2 or kinds != [half] * len(kinds):
            return compute(*given, **words)
        results = compute(*[with_floats(each, np.float32) for each in given], **words)
        if isinstance(results, dict):
            return with_floats(results, half)
        return tuple([with_floats(each, half) for each in results])

    return wide


def is_float(x: Any) -> bool:
    """Whether it is an array or a number of a type of floats."""
    return isinstance(x, np.ndarray | np.generic) and x.dtype.kind not in "iub"


def with_floats(arrays: Any, kind: DType) -> Any:
    """Convert the floats among arrays by name to a type; leave all else as it is."""
    if not isinstance(arrays, dict):
        return arrays
    return {n: x.astype(kind) if is_float(x) else x for n, x in arrays.items()}


def check_floats(
    params: Mapping[str, Array],
    inputs: Mapping[str, Array],
    *names: str,
) -> None:
    """Raise TypeError for what has no floats, or others than the first array."""
    arrays = {**params, **{name: inputs[name] for name in names}}
    first = next(iter(arrays), "")
    for name, array in arrays.items():
        if array.dtype.kind in "iub":
            found = f"{name} should be floats, not {array.dtype}"
            raise TypeError(f"{found}: write {name}.astype(np.float32)")
        wanted = arrays[first].dtype
        if array.dtype != wanted:
            found = f"{name} should be {wanted}, as {first} is, not {array.dtype}"
            raise TypeError(f"{found}: write {name}.astype(np.{wanted})")


def erf(x: Array) -> Array:
    """Gauss error function to double precision (W. J. Cody, 1969)."""
    y = np.abs(x, dtype=np.result_type(x, np.float32))  # float16 is too narrow
    small, middle = _erf_small(np.minimum(y, 0.5)), _erfc_middle(np.clip(y, 0.5, 4.0))
    large = _erfc_large(np.maximum(y, 4.0))
    positive = np.where(y <= 0.5, y * small, 1.0 - np.where(y <= 4.0, middle, large))
    return np.copysign(positive, x).astype(x.dtype)


def _erf_small(y: Array) -> Array:
    z = y * y
    above = 1.85777706184603153e-1
    for c in (3.16112374387056560, 1.13864154151050156e2, 3.77485237685302021e2):
        above = above * z + c
    above = above * z + 3.20937758913846947e3
    below = z + 2.36012909523441209e1
    for c in (2.44024637934444173e2, 1.28261652607737228e3, 2.84423683343917062e3):
        below = below * z + c
    return above / below


def _erfc_middle(y: Array) -> Array:
    above = 2.15311535474403846e-8 * y + 5.64188496988670089e-1
    for c in (
        8.88314979438837594,
        6.61191906371416295e1,
        2.98635138197400131e2,
        8.81952221241769090e2,
        1.71204761263407058e3,
        2.05107837782607147e3,
        1.23033935479799725e3,
    ):
        above = above * y + c
    below = y + 1.57449261107098347e1
    for c in (
        1.17693950891312499e2,
        5.37181101862009858e2,
        1.62138957456669019e3,
        3.29079923573345963e3,
        4.36261909014324716e3,
        3.43936767414372164e3,
        1.23033935480374942e3,
    ):
        below = below * y + c
    return np.exp(-y * y) * above / below


def _erfc_large(y: Array) -> Array:
    z = 1.0 / (y * y)
    above = 1.63153871373020978e-2 * z + 3.05326634961232344e-1
    for c in (3.60344899949804439e-1, 1.25781726111229246e-1, 1.60837851487422766e-2):
        above = above * z + c
    above = above * z + 6.58749161529837803e-4
    below = z + 2.56852019228982242
    for c in (1.87295284992346725, 5.27905102951428412e-1, 6.05183413124413191e-2):
        below = below * z + c
    below = below * z + 2.33520497626869185e-3
    return np.exp(-y * y) / y * (0.56418958354775628695 - z * above / below)


def toward(old: Array, new: Array, share: float) -> Array:
    """Move a running statistic a share of its way; it keeps its type."""
    return (old + share * (new - old)).astype(old.dtype)


def pad(x: Array, axis: int, start: int, length: int) -> Array:
    """Zeros of the given length along an axis, with `x` from `start` on."""
    widths = [(0, 0)] * x.ndim
    widths[axis] = (start, length - start - x.shape[axis])
    return np.pad(x, widths)


def window(
    x: Array,
    axis: int,
    count: int,
    width: int,
    stride: int = 1,
    dilation: int = 1,
    before: int = 0,
) -> Array:
    """Cut an axis into windows, with zeros beyond its ends; their elements are a new axis."""
    span = dilation * (width - 1) + 1
    behind = stride * (count - 1) + span - before - x.shape[axis]
    widths = [(0, 0)] * x.ndim
    widths[axis] = (max(before, 0), max(behind, 0))
    padded = np.pad(x, widths) if max(before, behind) > 0 else x
    views = np.lib.stride_tricks.sliding_window_view(padded, span, axis)
    index = [slice(None)] * views.ndim
    first = max(-before, 0)
    index[axis - 1] = slice(first, first + stride * (count - 1) + 1, stride)
    index[-1] = slice(None, None, dilation)
    return np.moveaxis(views[tuple(index)], -1, axis)


def overlap(
    windows: Array, axis: int, length: int, stride: int = 1, dilation: int = 1, before: int = 0
) -> Array:
    """Sum windows where they lie over each other: the gradient of cutting an axis into them."""
    parts = np.moveaxis(windows, (axis - 1, axis), (0, 1))
    span = stride * (len(parts) - 1) + 1
    first, start = max(-before, 0), max(before, 0)
    whole = max(first + span + dilation * (parts.shape[1] - 1), start + length)
    total = np.zeros((whole, *parts.shape[2:]), windows.dtype)
    for i in range(parts.shape[1]):
        place = first + i * dilation
        total[place : place + span : stride] += parts[:, i]
    return np.moveaxis(total[start : start + length], 0, axis)


def pick(x: Array, ids: Array) -> Array:
    """One element per row of the last axis."""
    return np.take_along_axis(x, ids[..., None], axis=-1)[..., 0]


def place(values: Array, ids: Array, length: int) -> Array:
    """Zeros with one value per row of a new last axis, at its id."""
    rows = np.zeros((*ids.shape, length), values.dtype)
    np.put_along_axis(rows, ids[..., None], values[..., None], axis=-1)
    return rows


def scatter_add(updates: Array, ids: Array, rows: int) -> Array:
    """Sum rows by their ids: the gradient of a table that was read by them."""
    flat = ids.reshape(-1)
    order = np.argsort(flat, kind="stable")
    present, starts = np.unique(flat[order], return_index=True)
    table = np.zeros((rows, *updates.shape[ids.ndim :]), updates.dtype)
    if flat.size:
        values = updates.reshape(flat.size, *updates.shape[ids.ndim :])
        # In float16, 2048 + 1 is 2048.
        wide = np.result_type(updates, np.float32)
        table[present] = np.add.reduceat(values[order], starts, axis=0, dtype=wide)
    return table


def take_rows(tables: Array, ids: Array, batch: int) -> Array:
    """Rows of tables by ids, each table by its own: the first `batch` axes are those of both."""
    rows, *axes = tables.shape[batch:]
    table = tables.reshape(math.prod(tables.shape[:batch]) * rows, *axes)
    return table[row_numbers(ids, rows, batch)]


def add_rows(updates: Array, ids: Array, rows: int, batch: int) -> Array:
    """Sum rows by their ids into tables: the gradient of taking rows of many tables."""
    tables = ids.shape[:batch]
    flat = row_numbers(ids, rows, batch)
    total = scatter_add(updates, flat, math.prod(tables) * rows)
    return total.reshape(*tables, rows, *updates.shape[ids.ndim :])


def row_numbers(ids: Array, rows: int, batch: int) -> Array:
    """The ids of rows of many tables as numbers in one that has the rows of all of them."""
    tables = ids.shape[:batch]
    first = rows * np.arange(math.prod(tables))
    return ids + first.reshape(*tables, *[1] * (ids.ndim - batch))


def top(x: Array, count: int) -> Array:
    """Where the largest of the last axis are, the largest first; of equal ones the first.

    A NaN is larger than every number, as in torch. Sorting puts it last, so this sorts backwards.
    """
    order = np.argsort(x[..., ::-1], axis=-1, kind="stable")[..., ::-1]
    return (x.shape[-1] - 1 - order)[..., :count]


def earlier(ids: Array) -> Array:
    """How many before it on the last axis are equal to each id."""
    order = np.argsort(ids, axis=-1, kind="stable")
    ordered = np.take_along_axis(ids, order, axis=-1)
    index = np.arange(ids.shape[-1], dtype=np.int64)
    first = np.where(np.diff(ordered, axis=-1, prepend=-1) != 0, index, 0)
    places = np.empty_like(order)
    np.put_along_axis(places, order, index - np.maximum.accumulate(first, axis=-1), axis=-1)
    return places


def drop(x: Array, keep: Array | None, kept: float) -> Array:
    """`x` scaled by 1 / kept where it is kept, else 0; `x` itself without a mask."""
    return x if keep is None else x * keep * (1 / kept)


def keep_mask(x: Array, p: float, seed: int | None, place: str) -> Array | None:
    """Draw which elements of `x` dropout keeps; None, all of them, without a seed."""
    if seed is None:
        return None
    drawn = words_at(random_key(seed, place), np.arange(x.size, dtype=np.uint64))
    return (drawn >> np.uint64(40) >= np.uint64(round(p * 2**24))).reshape(x.shape)


def keep_part(
    x: Array,
    p: float,
    seed: int | None,
    place: str,
    cuts: list[tuple[int, tuple[int, ...], int]],
) -> Array | None:
    """Draw a part of a mask: `cuts` are (axis, chunks of the rank, number of all)."""
    if seed is None:
        return None
    whole = list(x.shape)
    for axis, chunks, count in cuts:
        whole[axis] = whole[axis] * count // len(chunks)
    along = [np.arange(length, dtype=np.uint64) for length in whole]
    for axis, chunks, count in cuts:
        pieces = along[axis].reshape(count, -1)
        along[axis] = np.concatenate([pieces[chunk] for chunk in chunks])
    index = np.zeros((), np.uint64)
    for places, length in zip(along, whole, strict=True):
        index = index[..., None] * np.uint64(length) + places
    drawn = words_at(random_key(seed, place), index)
    return drawn >> np.uint64(40) >= np.uint64(round(p * 2**24))


def check_float(dtype: DType) -> None:
    """Raise TypeError for another type than one of floats."""
    if np.dtype(dtype).kind not in "fV":
        raise TypeError(f"dtype should be a type of floats, not {np.dtype(dtype)}")


def normal(seed: int, place: str, shape: tuple[int, ...], deviation: float) -> Array:
    """Nearly normal numbers, from integers alone: sums of four uniforms of 16 bits."""
    index = np.arange(math.prod(shape), dtype=np.uint64)
    drawn = words_at(random_key(seed, place), index)
    centered = np.full(drawn.shape, -2 * 65535, np.int64)
    for lane in range(4):
        centered += (drawn >> np.uint64(16 * lane) & np.uint64(65535)).astype(np.int64)
    return (centered * (deviation / ((65536**2 - 1) / 3) ** 0.5)).reshape(shape)


def uniform(
    seed: int,
    place: str,
    shape: tuple[int, ...],
    low: float,
    high: float,
) -> Array:
    """Numbers from `low` on and below `high`, in 2²⁴ equal steps."""
    index = np.arange(math.prod(shape), dtype=np.uint64)
    words = words_at(random_key(seed, place), index)
    drawn = (words >> np.uint64(40)).astype(np.int64)
    return (low + (high - low) * 2.0**-24 * drawn).reshape(shape)


def draw_normal(mean: Array, deviation: float, seed: int | None, place: str) -> Array:
    """Draw nearly normal numbers around their mean; the mean itself without a seed."""
    if seed is None:
        return mean
    return (mean + normal(seed, place, mean.shape, deviation)).astype(mean.dtype)


def draw_uniform(mean: Array, width: float, seed: int | None, place: str) -> Array:
    """Draw numbers in a range of that mean and width; the mean itself without a seed."""
    if seed is None:
        return mean
    drawn = uniform(seed, place, mean.shape, -width / 2, width / 2)
    return (mean + drawn).astype(mean.dtype)


def draw_bernoulli(mean: Array, p: float, seed: int | None, place: str) -> Array:
    """Draw ones with probability `p`, else zeros; `p` itself without a seed."""
    if seed is None:
        return mean
    drawn = uniform(seed, place, mean.shape, 0, 1)
    return (drawn < round(p * 2**24) * 2.0**-24).astype(mean.dtype)


def round_seed(seed: int | None, i: int) -> int | None:
    """The seed of one round of a loop: rounds draw numbers of their own."""
    return None if seed is None else random_key(seed, f"round {i}")


def random_key(seed: int, place: str) -> int:
    """The key of the random numbers of one place: FNV-1a of its name, and the seed."""
    if not hasattr(seed, "__index__"):
        raise TypeError(f"seed should be a whole number, not {str(seed)!r}")
    digest = 0xCBF29CE484222325
    for byte in place.encode():
        digest = (digest ^ byte) * 0x100000001B3 % 2**64
    return _mix(_mix(int(seed) % 2**64) ^ digest)


def _mix(z: int) -> int:
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 % 2**64
    z = (z ^ z >> 27) * 0x94D049BB133111EB % 2**64
    return z ^ z >> 31


def words_at(key: int, index: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Random 64-bit words (SplitMix64): each depends on the key and its index alone."""
    z = (index + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    z += np.uint64(key)
    z = (z ^ z >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ z >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
    return z ^ z >> np.uint64(31)
