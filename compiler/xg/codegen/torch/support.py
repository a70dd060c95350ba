"""Functions that a generated module contains where it needs them: each needs nothing but torch.

They are ordinary, tested code, whose text is copied. Names are those of generated code. Random
numbers are those of the NumPy backend, bit for bit: 64-bit words wrap round in both.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import torch

Array = torch.Tensor
DType = torch.dtype
Device = torch.device | None
Seed = int | torch.Tensor | None


def integers(ids: Array, name: str, below: int | None, *left_out: int) -> Array:
    """Widen integers to int64, and refuse those outside 0 … below - 1.

    torch counts negatives from the end. In a narrow type `k - 1` and `k * k` wrap.
    A GPU reports them later, so that nothing waits for it. A trace knows no number:
    there they become 2**31 - 1, which no axis has, so that a lookup fails.
    """
    if ids.is_floating_point():
        raise ValueError(f"{name} should be integers, not {ids.dtype}")
    wide = ids.to(torch.int64)
    if below is None or wide.is_meta:
        return wide
    outside = (wide < 0) | (wide >= below)
    for number in left_out:
        outside &= wide != number
    if torch.compiler.is_compiling():
        return torch.where(outside, 2**31 - 1, wide)
    expected = f"expected integers from 0 to {below - 1}"
    if wide.is_cuda:
        torch.ops.aten._assert_async.msg(outside.sum() == 0, f"{name}: {expected}")
    elif outside.any():
        place = [int(axis) for axis in outside.nonzero()[0]]
        found = f"{name}{place} is {int(ids[tuple(place)].item())}"
        raise ValueError(f"{found}, {expected}")
    return wide


def in_float32(rounded: int = 0) -> Callable[..., Any]:
    """Decorate an operator that adds, so that it computes half types in float32.

    A sum may exceed 65504, the largest float16. The first `rounded` results are
    rounded, or all of them. Values saved for the gradient stay float32.
    """

    def decorate(compute: Callable[..., Any]) -> Callable[..., Any]:
        def wide(*given: Any) -> Any:
            kinds = [x.dtype for x in given if is_float(x)]
            half = kinds[0] if kinds else torch.float32
            others = [kind for kind in kinds if kind != half]
            if half not in [torch.float16, torch.bfloat16] or (rounded and others):
                return compute(*given)
            results = compute(*[converted(x, half, torch.float32) for x in given])
            if isinstance(results, torch.Tensor):
                return converted(results, torch.float32, half)
            count = rounded if rounded else len(results)
            first = [converted(x, torch.float32, half) for x in results[:count]]
            return (*first, *results[count:])

        return wide

    return decorate


def is_float(x: Any) -> bool:
    """Whether it is a tensor of floats."""
    return isinstance(x, torch.Tensor) and x.is_floating_point()


def converted(x: Any, kind: DType, to: DType) -> Any:
    """A tensor of one type in another; anything else as it is."""
    return x.to(to) if isinstance(x, torch.Tensor) and x.dtype == kind else x


def toward(old: Array, new: Array, share: float) -> Array:
    """Move a running statistic a share of its way; it keeps its type."""
    return (old + share * (new - old)).to(old.dtype)


def check_floats(
    params: Mapping[str, Array],
    inputs: Mapping[str, Array],
    *names: str,
) -> None:
    """Raise TypeError for what has no floats, or others than the first tensor.

    Under autocast types are mixed: torch converts what an operator takes.
    """
    arrays = {**params, **{name: inputs[name] for name in names}}
    first = next(iter(arrays), "")
    for name, array in arrays.items():
        if not array.is_floating_point():
            found = f"{name} should be floats, not {array.dtype}"
            raise TypeError(f"{found}: write {name}.float()")
        wanted = arrays[first].dtype
        if array.dtype != wanted and not torch.is_autocast_enabled(array.device.type):
            found = f"{name} should be {wanted}, as {first} is, not {array.dtype}"
            raise TypeError(f"{found}: write {name}.to({wanted})")


def sign(x: Array) -> Array:
    """Return 1, 0 or -1, and NaN for NaN."""
    return torch.where(x == x, torch.sign(x), x)


def pad(x: Array, axis: int, start: int, length: int) -> Array:
    """Zeros of the given length along an axis, with `x` from `start` on."""
    behind = length - start - x.shape[axis]
    return torch.constant_pad_nd(x, (0, 0) * (-axis - 1) + (start, behind))


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
    if before or behind:
        x = torch.constant_pad_nd(x, (0, 0) * (-axis - 1) + (before, behind))
    parts = x.unfold(axis, span, stride)
    parts = parts[..., ::dilation] if dilation > 1 else parts
    return parts.movedim(-1, axis)


def overlap(
    windows: Array, axis: int, length: int, stride: int = 1, dilation: int = 1, before: int = 0
) -> Array:
    """Sum windows where they lie over each other: the gradient of cutting an axis into them."""
    parts = windows.movedim((axis - 1, axis), (0, 1))
    span = stride * (len(parts) - 1) + 1
    first, start = max(-before, 0), max(before, 0)
    whole = max(first + span + dilation * (parts.shape[1] - 1), start + length)
    # In bfloat16, 256 + 1 is 256.
    wide = torch.promote_types(parts.dtype, torch.float32)
    total = parts.new_zeros((whole, *parts.shape[2:]), dtype=wide)
    for i in range(parts.shape[1]):
        place = first + i * dilation
        total[place : place + span : stride] += parts[:, i]
    return total[start : start + length].movedim(0, axis).to(parts.dtype)


def pick(x: Array, ids: Array) -> Array:
    """One element per row of the last axis."""
    return x.gather(-1, ids[..., None])[..., 0]


def place(values: Array, ids: Array, length: int) -> Array:
    """Zeros with one value per row of a new last axis, at its id."""
    rows = values.new_zeros((*ids.shape, length))
    return rows.scatter_(-1, ids[..., None], values[..., None])


def sub_at(x: Array, values: Array, ids: Array) -> Array:
    """X less one value per row of its last axis, at its id."""
    y = x.to(torch.promote_types(x.dtype, values.dtype), copy=True)
    at = ids[..., None]
    return y.scatter_(-1, at, y.gather(-1, at) - values[..., None])


def scatter_add(updates: Array, ids: Array, rows: int) -> Array:
    """Sum rows by their ids: the gradient of a table that was read by them."""
    axes = updates.shape[ids.ndim :]
    # In bfloat16, 256 + 1 is 256.
    wide = torch.promote_types(updates.dtype, torch.float32)
    table = updates.new_zeros((rows, *axes), dtype=wide)
    table.index_add_(0, ids.reshape(-1), updates.reshape(ids.numel(), *axes).to(wide))
    return table.to(updates.dtype)


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
    first = rows * torch.arange(math.prod(tables), device=ids.device)
    numbers = ids + first.reshape(*tables, *[1] * (ids.ndim - batch))
    if torch.compiler.is_compiling():  # a number beyond a table would be one of the next
        return torch.where(ids < rows, numbers, 2**31 - 1)
    return numbers


def top(x: Array, count: int) -> Array:
    """Where the largest of the last axis are, the largest first; of equal ones the first."""
    return x.sort(dim=-1, descending=True, stable=True).indices[..., :count]


def earlier(ids: Array) -> Array:
    """How many before it on the last axis are equal to each id."""
    ordered, order = ids.sort(dim=-1, stable=True)
    index = torch.arange(ids.shape[-1], device=ids.device).expand(ids.shape)
    first = torch.where(ordered == ordered.roll(1, -1), 0, index)
    place = index - first.cummax(-1).values
    return place.gather(-1, order.argsort(-1))


def drop(x: Array, keep: Array | None, kept: float) -> Array:
    """`x` scaled by 1 / kept where it is kept, else 0; `x` itself without a mask."""
    return x if keep is None else x * keep * (1 / kept)


def keep_mask(x: Array, p: float, seed: Seed, place: str) -> Array | None:
    """Draw which elements of `x` dropout keeps; None, all of them, without a seed."""
    if seed is None:
        return None
    index = torch.arange(x.numel(), device=x.device)
    drawn = words_at(random_key(seed, place, x.device), index)
    return (shift_right(drawn, 40) >= round(p * 2**24)).reshape(x.shape)


def keep_part(
    x: Array,
    p: float,
    seed: Seed,
    place: str,
    cuts: list[tuple[int, tuple[int, ...], int]],
) -> Array | None:
    """Draw a part of a mask: `cuts` are (axis, chunks of the rank, number of all)."""
    if seed is None:
        return None
    whole = list(x.shape)
    for axis, chunks, count in cuts:
        whole[axis] = whole[axis] * count // len(chunks)
    along = [torch.arange(length, device=x.device) for length in whole]
    for axis, chunks, count in cuts:
        pieces = along[axis].reshape(count, -1)
        along[axis] = torch.cat([pieces[chunk] for chunk in chunks])
    index = torch.zeros((), dtype=torch.int64, device=x.device)
    for places, length in zip(along, whole, strict=True):
        index = index[..., None] * length + places
    drawn = words_at(random_key(seed, place, x.device), index)
    return shift_right(drawn, 40) >= round(p * 2**24)


def check_float(dtype: DType) -> None:
    """Raise TypeError for another type than one of floats."""
    if not (hasattr(dtype, "is_floating_point") and dtype.is_floating_point):
        raise TypeError(f"dtype should be a type of floats of torch, not {dtype}")


def normal(seed: Seed, place: str, shape: tuple[int, ...], deviation: float) -> Array:
    """Nearly normal numbers, from integers alone: sums of four uniforms of 16 bits."""
    key = random_key(seed, place)
    drawn = words_at(key, torch.arange(math.prod(shape), device=key.device))
    centered = torch.full_like(drawn, -2 * 65535)
    for lane in range(4):
        centered += shift_right(drawn, 16 * lane) & 65535
    scale = deviation / ((65536**2 - 1) / 3) ** 0.5
    return (centered.double() * scale).reshape(shape)


def uniform(
    seed: Seed,
    place: str,
    shape: tuple[int, ...],
    low: float,
    high: float,
) -> Array:
    """Numbers from `low` on and below `high`, in 2²⁴ equal steps."""
    key = random_key(seed, place)
    words = words_at(key, torch.arange(math.prod(shape), device=key.device))
    drawn = shift_right(words, 40)
    return (low + (high - low) * 2.0**-24 * drawn.double()).reshape(shape)


def draw_normal(mean: Array, deviation: float, seed: Seed, place: str) -> Array:
    """Draw nearly normal numbers around their mean; the mean itself without a seed."""
    if seed is None:
        return mean
    drawn = normal(seed, place, mean.shape, deviation)
    return (mean + drawn.to(mean.device)).to(mean.dtype)


def draw_uniform(mean: Array, width: float, seed: Seed, place: str) -> Array:
    """Draw numbers in a range of that mean and width; the mean itself without a seed."""
    if seed is None:
        return mean
    drawn = uniform(seed, place, mean.shape, -width / 2, width / 2)
    return (mean + drawn.to(mean.device)).to(mean.dtype)


def draw_bernoulli(mean: Array, p: float, seed: Seed, place: str) -> Array:
    """Draw ones with probability `p`, else zeros; `p` itself without a seed."""
    if seed is None:
        return mean
    drawn = uniform(seed, place, mean.shape, 0, 1).to(mean.device)
    return (drawn < round(p * 2**24) * 2.0**-24).to(mean.dtype)


def round_seed(seed: Seed, i: int) -> Seed:
    """The seed of one round of a loop: rounds draw numbers of their own."""
    return None if seed is None else random_key(seed, f"round {i}")


def random_key(seed: Seed, place: str, device: Device = None) -> Array:
    """The key of the random numbers of one place: FNV-1a of its name, and the seed."""
    if not hasattr(seed, "__index__"):
        raise TypeError(f"seed should be a whole number, not {str(seed)!r}")
    digest = 0xCBF29CE484222325
    for char in place:
        digest = (digest ^ ord(char)) * 0x100000001B3 % 2**64
    if isinstance(seed, int):
        seed = signed(seed % 2**64)
    start = torch.as_tensor(seed, dtype=torch.int64, device=device)
    return mix(mix(start) ^ signed(digest))


def words_at(key: Array, index: Array) -> Array:
    """Random 64-bit words (SplitMix64): each depends on the key and its index alone."""
    return mix((index + 1) * signed(0x9E3779B97F4A7C15) + key)


def mix(z: Array) -> Array:
    """Make every bit of a word depend on all of it."""
    z = (z ^ shift_right(z, 30)) * signed(0xBF58476D1CE4E5B9)
    z = (z ^ shift_right(z, 27)) * signed(0x94D049BB133111EB)
    return z ^ shift_right(z, 31)


def shift_right(z: Array, bits: int) -> Array:
    """Shift words to the right, zeros moving in: torch would copy the sign."""
    return z >> bits & 2 ** (64 - bits) - 1 if bits else z


def signed(word: int) -> int:
    """A 64-bit word as torch holds it."""
    return word - 2**64 if word >= 2**63 else word
