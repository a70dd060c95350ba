"""Functions that are copied into a generated module when it needs them: plain JAX each.

They are ordinary, tested code, whose text is copied. Names are those of generated code.
Random numbers are those of the NumPy backend, bit for bit.
"""

# JAX says too little of its own types:
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportAttributeAccessIssue=false

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

Array = jax.Array
DType = Any
Seed = int | Array | None


@jax.tree_util.register_static
class Size(int):
    """A size that is saved: part of the structure, so `jax.jit` does not trace it."""


def integers(ids: Array, name: str, below: int | None, *left_out: int) -> Array:
    """Widen integers as far as JAX is set to, and refuse those outside 0 … below - 1.

    JAX counts negatives from the end. In a narrow type `k - 1` and `k * k` wrap.
    `jit` knows no number: there they become the largest int32, which no axis has, so that what is
    looked up by it is NaN and its gradient goes nowhere. JAX cuts a larger one to 32 bits: to -1.
    """
    if jnp.issubdtype(ids.dtype, jnp.floating):
        raise ValueError(f"{name} should be integers, not {ids.dtype}")
    wide = jnp.asarray(ids, int)
    if below is None:
        return wide
    known = ids if ids.dtype.itemsize == 8 else wide  # JAX would cut int64 of NumPy to int32
    outside = (known < 0) | (known > below - 1)
    for number in left_out:
        outside &= known != number
    if isinstance(outside, jax.core.Tracer):
        return jnp.where(outside, jnp.iinfo(jnp.int32).max, wide)
    if outside.any():
        place = [int(axis) for axis in jnp.argwhere(outside)[0]]
        found = f"{name}{place} is {int(ids[tuple(place)])}"
        raise ValueError(f"{found}, expected integers from 0 to {below - 1}")
    return wide


def in_float32(rounded: int = 0) -> Callable[..., Any]:
    """Decorate an operator that adds, so that it computes half types in float32.

    A sum may exceed 65504, the largest float16. The first `rounded` results are
    rounded, or all of them. Values saved for the gradient stay float32.
    """

    def decorate(compute: Callable[..., Any]) -> Callable[..., Any]:
        def wide(*given: Any) -> Any:
            kinds = [x.dtype for x in given if is_float(x)]
            half = kinds[0] if kinds else jnp.float32
            others = [kind for kind in kinds if kind != half]
            if half not in [jnp.float16, jnp.bfloat16] or (rounded and others):
                return compute(*given)
            results = compute(*[converted(x, half, jnp.float32) for x in given])
            if not isinstance(results, tuple):
                return converted(results, jnp.float32, half)
            count = rounded if rounded else len(results)
            first = [converted(x, jnp.float32, half) for x in results[:count]]
            return (*first, *results[count:])

        return wide

    return decorate


def is_float(x: Any) -> bool:
    """Whether it is an array of floats."""
    return hasattr(x, "dtype") and jnp.issubdtype(x.dtype, jnp.floating)


def converted(x: Any, kind: DType, to: DType) -> Any:
    """An array of one type in another; anything else as it is."""
    return x.astype(to) if hasattr(x, "dtype") and x.dtype == kind else x


def check_width(reach: int, what: str) -> None:
    """Refuse integers that may become larger than those that JAX is set to."""
    widest = jnp.iinfo(jnp.asarray(0, int).dtype).max
    if reach > widest:
        found = f"{what} computes integers up to {reach}, and they are exact up to {widest}"
        set_to = "set jax_enable_x64, or write float(i) where they may be larger"
        raise ValueError(f"{found}: {set_to}")


def toward(old: Array, new: Array, share: float) -> Array:
    """Move a running statistic a share of its way; it keeps its type."""
    return (old + share * (new - old)).astype(old.dtype)


def check_floats(
    params: Mapping[str, Array],
    inputs: Mapping[str, Array],
    *names: str,
) -> None:
    """Raise TypeError for what has no floats, or others than the first array.

    Floats of NumPy count as what JAX makes of them: float64 only if it is set to that.
    """
    arrays = {**params, **{name: inputs[name] for name in names}}
    kinds = {name: jnp.result_type(array) for name, array in arrays.items()}
    first = next(iter(kinds), "")
    for name, kind in kinds.items():
        if not jnp.issubdtype(kind, jnp.floating):
            found = f"{name} should be floats, not {kind}"
            raise TypeError(f"{found}: write {name}.astype(jnp.float32)")
        if kind != kinds[first]:
            found = f"{name} should be {kinds[first]}, as {first} is, not {kind}"
            raise TypeError(f"{found}: write {name}.astype(jnp.{kinds[first]})")


def pad(x: Array, axis: int, start: int, length: int) -> Array:
    """Zeros of the given length along an axis, with `x` from `start` on."""
    widths = [(0, 0)] * x.ndim
    widths[axis] = (start, length - start - x.shape[axis])
    return jnp.pad(x, widths)


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
    places = stride * jnp.arange(count)[:, None] + dilation * jnp.arange(width) - before
    inside = jnp.where(places < 0, x.shape[axis], places)
    return jnp.take(x, inside, axis, mode="fill", fill_value=0)


def overlap(
    windows: Array, axis: int, length: int, stride: int = 1, dilation: int = 1, before: int = 0
) -> Array:
    """Sum windows where they lie over each other: the gradient of cutting an axis into them."""
    parts = jnp.moveaxis(windows, (axis - 1, axis), (0, 1))
    count, width = parts.shape[:2]
    places = stride * jnp.arange(count)[:, None] + dilation * jnp.arange(width) - before
    # In bfloat16, 256 + 1 is 256.
    wide = jnp.promote_types(parts.dtype, jnp.float32)
    total = jnp.zeros((length, *parts.shape[2:]), wide)
    inside = jnp.where(places < 0, length, places)
    total = total.at[inside].add(parts.astype(wide), mode="drop")
    return jnp.moveaxis(total, 0, axis).astype(parts.dtype)


def pick(x: Array, ids: Array) -> Array:
    """One element per row of the last axis."""
    return jnp.take_along_axis(x, ids[..., None], axis=-1)[..., 0]


def place(values: Array, ids: Array, length: int) -> Array:
    """Zeros with one value per row of a new last axis, at its id."""
    return jnp.where(jnp.arange(length) == ids[..., None], values[..., None], 0)


def scatter_add(updates: Array, ids: Array, rows: int) -> Array:
    """Rows summed by their ids: the gradient of a table that was read by them."""
    # In bfloat16, 256 + 1 is 256.
    wide = jnp.promote_types(updates.dtype, jnp.float32)
    table = jnp.zeros((rows, *updates.shape[ids.ndim :]), wide)
    return table.at[ids].add(updates.astype(wide)).astype(updates.dtype)


def take_rows(tables: Array, ids: Array, batch: int) -> Array:
    """Rows of tables by ids, each table by its own: the first `batch` axes are those of both."""
    rows, *axes = tables.shape[batch:]
    table = tables.reshape(math.prod(tables.shape[:batch]) * rows, *axes)
    return table.at[row_numbers(ids, rows, batch)].get(mode="fill")  # take fails for no rows


def add_rows(updates: Array, ids: Array, rows: int, batch: int) -> Array:
    """Sum rows by their ids into tables: the gradient of taking rows of many tables."""
    tables = ids.shape[:batch]
    flat = row_numbers(ids, rows, batch)
    total = scatter_add(updates, flat, math.prod(tables) * rows)
    return total.reshape(*tables, rows, *updates.shape[ids.ndim :])


def row_numbers(ids: Array, rows: int, batch: int) -> Array:
    """The ids of rows of many tables as numbers in one that has the rows of all of them."""
    tables = ids.shape[:batch]
    first = rows * jnp.arange(math.prod(tables))
    numbers = ids + first.reshape(*tables, *[1] * (ids.ndim - batch))
    return jnp.where(ids < rows, numbers, jnp.iinfo(jnp.int32).max)  # another table has them


def top(x: Array, count: int) -> Array:
    """Where the largest of the last axis are, the largest first; of equal ones the first.

    A NaN is larger than every number, as in torch. Sorting puts it last, so this sorts backwards.
    """
    order = jnp.argsort(x[..., ::-1], axis=-1)[..., ::-1]
    return (x.shape[-1] - 1 - order)[..., :count]


def earlier(ids: Array) -> Array:
    """How many before it on the last axis are equal to each id."""
    order = jnp.argsort(ids, axis=-1)
    ordered = jnp.take_along_axis(ids, order, axis=-1)
    index = jnp.arange(ids.shape[-1])
    first = jnp.where(jnp.diff(ordered, axis=-1, prepend=-1) != 0, index, 0)
    place = index - jax.lax.cummax(first, first.ndim - 1)
    return jnp.take_along_axis(place, jnp.argsort(order, axis=-1), axis=-1)


def drop(x: Array, keep: Array | None, kept: float) -> Array:
    """`x` scaled by 1 / kept where it is kept, else 0; `x` itself without a mask."""
    return x if keep is None else x * keep * (1 / kept)


def keep_mask(x: Array, p: float, seed: Seed, place: str) -> Array | None:
    """Draw which elements of `x` dropout keeps; None, all of them, without a seed."""
    if seed is None:
        return None
    drawn = random_words(word(seed), word(digest(place)), x.shape)
    return drawn.high >> 8 >= round(p * 2**24)


def draw_normal(mean: Array, deviation: float, seed: Seed, place: str) -> Array:
    """Nearly normal numbers around their mean; the mean itself without a seed."""
    if seed is None:
        return mean
    return (mean + normal(seed, place, mean.shape, deviation)).astype(mean.dtype)


def draw_uniform(mean: Array, width: float, seed: Seed, place: str) -> Array:
    """Numbers in a range of that mean and width; the mean itself without a seed."""
    if seed is None:
        return mean
    drawn = uniform(seed, place, mean.shape, -width / 2, width / 2)
    return (mean + drawn).astype(mean.dtype)


def draw_bernoulli(mean: Array, p: float, seed: Seed, place: str) -> Array:
    """Ones with probability `p`, else zeros; `p` itself without a seed."""
    if seed is None:
        return mean
    drawn = uniform(seed, place, mean.shape, 0, 1)
    return (drawn < round(p * 2**24) * 2.0**-24).astype(mean.dtype)


def round_seed(seed: Seed, i: int) -> Seed:
    """The seed of one round of a loop, in two halves: rounds draw numbers of their own."""
    if seed is None:
        return None
    start, place = mix(word(seed)), word(digest(f"round {i}"))
    return jnp.stack(mix(Word(start.high ^ place.high, start.low ^ place.low)))


def check_float(dtype: DType) -> None:
    """Raise TypeError for another type than one of floats."""
    if not jnp.issubdtype(dtype, jnp.floating):
        raise TypeError(f"dtype should be a type of floats, not {dtype}")


def normal(
    seed: int | Array,
    place: str,
    shape: tuple[int, ...],
    deviation: float,
) -> Array:
    """Nearly normal numbers: a sum of four uniforms of 16 bits, from integers alone."""
    drawn = random_words(word(seed), word(digest(place)), shape)
    centered = sums(drawn) - 2 * 65535
    return centered * (deviation / ((65536**2 - 1) / 3) ** 0.5)


def uniform(
    seed: int | Array, place: str, shape: tuple[int, ...], low: float, high: float
) -> Array:
    """Numbers from `low` on and below `high`, in 2²⁴ equal steps."""
    drawn = random_words(word(seed), word(digest(place)), shape)
    return low + (high - low) * 2.0**-24 * (drawn.high >> 8)


class Word(NamedTuple):
    """A 64-bit word in two halves: JAX has no wider integers by default."""

    high: Array
    low: Array


def digest(place: str) -> int:
    """FNV-1a of the name of a place."""
    found = 0xCBF29CE484222325
    for byte in place.encode():
        found = (found ^ byte) * 0x100000001B3 % 2**64
    return found


def word(number: int | Array) -> Word:
    """A whole number modulo 2**64, or the two halves that an array holds."""
    if isinstance(number, int):
        high, low = number >> 32 & 0xFFFFFFFF, number & 0xFFFFFFFF
        return Word(jnp.uint32(high), jnp.uint32(low))
    if not hasattr(number, "ndim"):
        raise TypeError(f"seed should be a whole number, not {str(number)!r}")
    if number.ndim:
        return Word(number[0], number[1])
    return Word((number >> 31 >> 1).astype(jnp.uint32), number.astype(jnp.uint32))


@jax.jit(static_argnames="shape")
def random_words(seed: Word, place: Word, shape: tuple[int, ...]) -> Word:
    """Random words (SplitMix64), each from its index, the seed and a place alone."""
    start = mix(seed)
    key = mix(Word(start.high ^ place.high, start.low ^ place.low))
    index = word(0)
    for axis, length in enumerate(shape):
        axes = [-1, *[1] * (len(shape) - 1 - axis)]
        along = Word(jnp.uint32(0), jnp.arange(length, dtype=jnp.uint32).reshape(axes))
        index = plus(times(index, word(length)), along)
    return mix(plus(times(plus(index, word(1)), word(0x9E3779B97F4A7C15)), key))


@jax.jit
def sums(words: Word) -> Array:
    """The sums of the four numbers of 16 bits that words are made of."""
    halves = [(half >> 16) + (half & 65535) for half in words]
    return (halves[0] + halves[1]).astype(jnp.int32)


def mix(z: Word) -> Word:
    """Every bit of a word made to depend on all of it."""
    z = times(shifted(z, 30), word(0xBF58476D1CE4E5B9))
    z = times(shifted(z, 27), word(0x94D049BB133111EB))
    return shifted(z, 31)


def shifted(z: Word, bits: int) -> Word:
    """``z ^ z >> bits``."""
    return Word(z.high ^ z.high >> bits, z.low ^ (z.low >> bits | z.high << 32 - bits))


def plus(a: Word, b: Word) -> Word:
    """The sum of two words, modulo 2**64."""
    low = a.low + b.low
    return Word(a.high + b.high + (low < a.low).astype(jnp.uint32), low)


def times(a: Word, b: Word) -> Word:
    """The product of two words, modulo 2**64, from products that fit in 32 bits."""
    a_top, b_top = a.low >> 16, b.low >> 16
    a_end, b_end = a.low & 65535, b.low & 65535
    middle = a_top * b_end + (a_end * b_end >> 16)
    other = b_top * a_end + (middle & 65535)
    high = a_top * b_top + (middle >> 16) + (other >> 16)
    return Word(high + a.high * b.low + a.low * b.high, a.low * b.low)
