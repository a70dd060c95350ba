"""Attention of NumPy, in parts that stay in the cache of a core.

Ordinary, tested code, like `kernels`; the kernels that call it are in `xg_kernels.shared`. Torch
has no use for tiles, since its own kernels have them, so this is not shared.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xg.codegen.emit.array_ops import only_in_modules

Array = NDArray[Any]

# From `xg_kernels.shared`.
merging: Callable[[Array, Array], Array] = only_in_modules


def attend(
    q: Array,
    k: Array,
    v: Array,
    m: Array | None,
    keep: Array | None,
    scale: float,
    mask: str,
    factor: float,
) -> tuple[Array, Array]:
    """Attention with the weights that stay, times a factor; all if `keep` is None."""
    y, lse = attend_tiles(q, k, v, m, keep, scale, tiles(q, k, mask))
    if keep is not None:
        y *= factor
    return y, lse


def d_attend(
    dy: Array,
    q: Array,
    k: Array,
    v: Array,
    m: Array | None,
    y: Array,
    lse: Array,
    keep: Array | None,
    scale: float,
    mask: str,
    factor: float,
) -> tuple[Array, Array, Array]:
    """Gradient of attention with the same weights dropped."""
    parts = tiles(q, k, mask)
    return d_attend_tiles(dy, q, k, v, m, keep, y, lse, scale, parts, factor)


def output(q: Array, k: Array, v: Array, m: Array | None, scale: float, mask: str) -> Array:
    """Attention without sums; of one query, the last, it takes every key."""
    if m is None and q.shape[-2] == 1 <= k.shape[-2]:
        return attend_all(q, k, v, scale)
    return attend_tiles(q, k, v, m, None, scale, tiles(q, k, mask))[0]


def attend_band(
    q: Array, k: Array, v: Array, m: Array | None, scale: float, behind: int, ahead: int
) -> tuple[Array, Array]:
    """Attention to a band of keys."""
    return attend_tiles(q, k, v, m, None, scale, banded(q, k, behind, ahead))


def attend_all(q: Array, k: Array, v: Array, scale: float) -> Array:
    """Attention of few queries, each of which sees every key; there are some."""
    e = q * scale @ k.swapaxes(-1, -2)
    e -= e.max(axis=-1, keepdims=True)
    np.exp(e, out=e)
    y: Array = e @ v
    y /= e.sum(axis=-1, keepdims=True)
    return y


def d_local_attention(
    dy: Array,
    q: Array,
    k: Array,
    v: Array,
    m: Array | None,
    y: Array,
    lse: Array,
    scale: float,
    behind: int,
    ahead: int,
) -> tuple[Array, Array, Array]:
    """Gradient of attention to a band of keys."""
    parts = banded(q, k, behind, ahead)
    return d_attend_tiles(dy, q, k, v, m, None, y, lse, scale, parts, 1.0)


def attend_tiles(
    q: Array,
    k: Array,
    v: Array,
    m: Array | None,
    keep: Array | None,
    scale: float,
    parts: list[tuple[slice, slice, Array | None]],
) -> tuple[Array, Array]:
    """Attention in parts that stay in the cache of a core; scores lie keys by queries.

    So the sums of a query run along columns, which NumPy adds many at a time.
    """
    y, lse = merging(q, v), np.empty((*q.shape[:-1], 1), q.dtype)
    for batch in batches(q, k):
        scaled = q[batch] * scale
        for rows, keys, hidden in parts:
            seen = turned(m, batch, rows, keys)
            e = scores(scaled[..., rows, :], k[batch][..., keys, :], hidden, seen)
            peak = e.max(axis=-2, keepdims=True, initial=-np.inf)
            peak[peak == -np.inf] = 0
            e -= peak
            np.exp(e, out=e)
            total = e.sum(axis=-2, keepdims=True)
            total[total == 0] = 1
            stays = turned(keep, batch, rows, keys)
            if stays is not None:
                e *= stays
            out = y[batch][..., rows, :]
            np.matmul(e.swapaxes(-1, -2), v[batch][..., keys, :], out=out)
            out /= total.swapaxes(-1, -2)
            peak += np.log(total)
            lse[batch][..., rows, :] = peak.swapaxes(-1, -2)
    return y, lse


def d_attend_tiles(
    dy: Array,
    q: Array,
    k: Array,
    v: Array,
    m: Array | None,
    keep: Array | None,
    y: Array,
    lse: Array,
    scale: float,
    parts: list[tuple[slice, slice, Array | None]],
    factor: float,
) -> tuple[Array, Array, Array]:
    """Gradient of attention, its weights computed again in the same tiles."""
    dq, dk, dv = merging(q, q), merging(k, k), merging(v, v)
    dk[...] = dv[...] = 0
    for batch in batches(q, k):
        scaled = q[batch] * scale
        delta = np.einsum("...d,...d->...", dy[batch], y[batch])[..., None, :]
        for rows, keys, hidden in parts:
            columns, seen = k[batch][..., keys, :], turned(m, batch, rows, keys)
            p = scores(scaled[..., rows, :], columns, hidden, seen)
            p -= lse[batch][..., rows, :].swapaxes(-1, -2)
            np.exp(p, out=p)
            d_out = dy[batch][..., rows, :]
            dz = v[batch][..., keys, :] @ d_out.swapaxes(-1, -2)
            kept, stays = p, turned(keep, batch, rows, keys)
            if stays is not None:
                kept = p * stays
                dz *= stays
                dz *= factor
            dv[batch][..., keys, :] += kept @ d_out
            dz -= delta[..., rows]
            dz *= p
            dk[batch][..., keys, :] += dz @ scaled[..., rows, :]
            np.matmul(dz.swapaxes(-1, -2), columns, out=dq[batch][..., rows, :])
    dq *= scale
    dv *= factor
    return dq, dk, dv


def scores(q: Array, k: Array, hidden: Array | None, seen: Array | None) -> Array:
    """``K Q⊤``, plus `hidden` in the last of its rows, -inf where `seen` is 0."""
    z = k @ q.swapaxes(-1, -2)
    if hidden is not None:
        z[..., z.shape[-2] - hidden.shape[0] :, :] += hidden
    if seen is not None:
        np.copyto(z, -np.inf, where=seen == 0)
    return z


def turned(
    pairs: Array | None,
    batch: slice,
    rows: slice,
    keys: slice,
) -> Array | None:
    """A part of ``[.., S, S_k]`` as keys by queries, if there is one."""
    if pairs is None:
        return None
    return pairs[batch][..., rows, keys].swapaxes(-1, -2)


def batches(q: Array, k: Array) -> list[slice]:
    """Parts of the first axis whose scores stay in the cache of a core."""
    if q.ndim == 2:
        return [slice(None)]
    pairs = math.prod(q.shape[1:-1]) * k.shape[-2]
    step = max(1, 2**17 // max(1, pairs))
    return [slice(start, start + step) for start in range(0, q.shape[0], step)]


def tiles(q: Array, k: Array, mask: str) -> list[tuple[slice, slice, Array | None]]:
    """Queries, the keys that some of them see, and -inf for those that one does not.

    If the mask is causal, query i of S sees the keys up to i + S_k - S.
    """
    S, S_k = q.shape[-2], k.shape[-2]
    if mask == "none" or S == 1:
        return [(slice(0, S), slice(0, S_k), None)]
    found: list[tuple[slice, slice, Array | None]] = []
    for start in range(0, S, 64):
        stop = min(S, start + 64)
        seen, some = max(0, S_k - S + stop), max(0, S_k - S + start + 1)
        last = np.arange(S_k - S + start, S_k - S + stop, dtype=np.int64)
        hidden = np.arange(some, seen, dtype=np.int64)[:, None] > last
        bias = np.where(hidden, -np.inf, 0).astype(q.dtype)
        found.append((slice(start, stop), slice(0, seen), bias))
    return found


def banded(q: Array, k: Array, behind: int, ahead: int) -> list[tuple[slice, slice, Array | None]]:
    """The tiles of queries that see the keys of a band; the last query is at the last key."""
    S, S_k = q.shape[-2], k.shape[-2]
    found: list[tuple[slice, slice, Array | None]] = []
    for start in range(0, S, 64):
        stop = min(S, start + 64)
        rows = np.arange(start, stop, dtype=np.int64) + (S_k - S)
        first = min(S_k, max(0, start + S_k - S - behind))
        end = max(first, min(S_k, stop + S_k - S + ahead))
        keys = np.arange(first, end, dtype=np.int64)[:, None]
        bias = np.where((keys < rows - behind) | (keys > rows + ahead), -np.inf, 0)
        found.append((slice(start, stop), slice(first, end), bias.astype(q.dtype)))
    return found
