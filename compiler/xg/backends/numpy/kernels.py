"""Kernels of NumPy: operators by hand, in place where a body would make a new array each time.

Ordinary, tested code; `kernel_table` says which operator each computes, the module's text is taken
from here. A kernel writes into what it is given only where the table says so.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xg.backends.numpy.support import keep_mask

Array = NDArray[Any]


# ---- products -----------------------------------------------------------------------------------


def product(a: Array, b: Array) -> Array:
    """``A B`` as one product of two matrices: NumPy would make one for each leading axis."""
    rows = a.reshape(-1, a.shape[-1]) @ b
    return rows.reshape(*a.shape[:-1], b.shape[1])


def product_with_transpose(a: Array, b: Array) -> Array:
    """``A B⊤`` as one product of two matrices."""
    rows = a.reshape(-1, a.shape[-1]) @ b.T
    return rows.reshape(*a.shape[:-1], b.shape[0])


def linear(x: Array, w: Array, b: Array) -> Array:
    """``X W + b``, the bias added in place."""
    y = x.reshape(-1, x.shape[-1]) @ w
    y += b
    return y.reshape(*x.shape[:-1], w.shape[1])


# ---- sums ---------------------------------------------------------------------------------------


def add_to_first(a: Array, b: Array) -> Array:
    """``A + B`` in place of A, which nothing else reads."""
    a += b
    return a


def add_to_second(a: Array, b: Array) -> Array:
    """``A + B`` in place of B, which nothing else reads."""
    b += a
    return b


# ---- activations --------------------------------------------------------------------------------


def softmax(z: Array) -> Array:
    """Softmax over the last axis in one array; a row that is masked everywhere gives zeros."""
    peak = z.max(axis=-1, keepdims=True)
    p = z - np.where(peak > -np.inf, peak, 0)
    np.exp(p, out=p)
    total = p.sum(axis=-1, keepdims=True)
    p /= np.where(total > 0, total, 1)
    return p


def d_softmax(dp: Array, p: Array) -> Array:
    """Gradient of softmax: dZ = (dP - Σ dP ⊙ P) ⊙ P."""
    dz = dp - np.einsum("...j,...j->...", dp, p)[..., None]
    dz *= p
    return dz


def gelu_tanh(x: Array) -> Array:
    """GELU by its tanh form, in one array: c = sqrt(2/π), 0.0356… = 0.044715 c."""
    y = x * x
    y *= 0.035677408136300125
    y += 0.7978845608028654
    y *= x
    np.tanh(y, out=y)
    y += 1
    y *= x
    y *= 0.5
    return y


def d_gelu_tanh(dy: Array, x: Array) -> Array:
    """Gradient of GELU: with T = 1 + t the slope is T (1 + x u' (2 - T)) / 2."""
    slope = x * x
    top = slope * 0.035677408136300125
    top += 0.7978845608028654
    top *= x
    np.tanh(top, out=top)
    top += 1
    slope *= 0.10703222440890037
    slope += 0.7978845608028654
    slope *= x
    slope *= 2 - top
    slope += 1
    slope *= top
    slope *= 0.5
    slope *= dy
    return slope


# ---- normalization ------------------------------------------------------------------------------


def layer_norm(x: Array, gamma: Array, beta: Array, eps: float) -> tuple[Array, Array, Array]:
    """Layer normalization in one array: the mean first, then the mean square of what is left."""
    mean = x.mean(axis=-1, keepdims=True)
    y = x - mean
    square = np.einsum("...d,...d->...", y, y)[..., None] / x.shape[-1]
    rstd = 1 / np.sqrt(square + eps)
    y *= rstd
    y *= gamma
    y += beta
    return y, mean, rstd


def d_layer_norm(
    dy: Array, x: Array, gamma: Array, mean: Array, rstd: Array
) -> tuple[Array, Array, Array]:
    """Gradient of layer normalization; sums over rows and columns need no array of their own."""
    size = x.shape[-1]
    x_hat = x - mean
    x_hat *= rstd
    rows = dy.reshape(-1, size)
    dgamma = np.einsum("nd,nd->d", rows, x_hat.reshape(-1, size))
    dbeta = rows.sum(axis=0)
    dx = dy * gamma
    slope = np.einsum("...d,...d->...", dx, x_hat)[..., None] / size
    x_hat *= slope
    dx -= dx.mean(axis=-1, keepdims=True)
    dx -= x_hat
    dx *= rstd
    return dx, dgamma, dbeta


# ---- loss ---------------------------------------------------------------------------------------


def cross_entropy(z: Array, t: Array, reduction: str) -> tuple[Array, Array]:
    """Cross-entropy by log-sum-exp, in one array."""
    peak = z.max(axis=-1, keepdims=True)
    e = z - peak
    np.exp(e, out=e)
    lse = np.log(e.sum(axis=-1, keepdims=True))
    lse += peak
    total = (lse - np.take_along_axis(z, t[..., None], axis=-1)).sum()
    return (total / t.size if reduction == "mean" else total), lse


def d_cross_entropy(dloss: Array, z: Array, t: Array, lse: Array, reduction: str) -> Array:
    """Gradient of cross-entropy, softmax and the one at the target in one array."""
    dz = z - lse
    np.exp(dz, out=dz)
    rows = dz.reshape(-1, z.shape[-1])
    rows[np.arange(t.size), t.reshape(-1)] -= 1
    dz *= dloss / t.size if reduction == "mean" else dloss
    return dz


# ---- attention ----------------------------------------------------------------------------------


def attention(
    q: Array, k: Array, v: Array, m: Array | None, scale: float, mask: str
) -> tuple[Array, Array]:
    """``softmax(α Q K⊤ + M) V``, and log Σ exp of each row of scores."""
    return attend(q, k, v, m, None, scale, mask)


def d_attention(
    dy: Array,
    q: Array,
    k: Array,
    v: Array,
    m: Array | None,
    y: Array,
    lse: Array,
    scale: float,
    mask: str,
) -> tuple[Array, Array, Array]:
    """Gradient of attention."""
    return d_attend(dy, q, k, v, m, None, y, lse, scale, mask, 1.0)


def attention_with_dropout(
    q: Array,
    k: Array,
    v: Array,
    m: Array | None,
    scale: float,
    p: float,
    mask: str,
    scaling: str,
    seed: int | None,
    place: str,
) -> tuple[Array, Array, Array | None]:
    """Attention whose weights are dropped with probability p; which stay is given too."""
    keep = keep_mask((*q.shape[:-1], k.shape[-2]), p, seed, place)
    y, lse = attend(q, k, v, m, keep, scale, mask)
    if keep is not None:
        y *= 1 / (1 - p) if scaling == "scaled" else 1.0
    return y, lse, keep


def d_attention_with_dropout(
    dy: Array,
    q: Array,
    k: Array,
    v: Array,
    m: Array | None,
    y: Array,
    lse: Array,
    keep: Array | None,
    scale: float,
    p: float,
    mask: str,
    scaling: str,
) -> tuple[Array, Array, Array]:
    """Gradient of attention with the same weights dropped."""
    factor = 1 / (1 - p) if keep is not None and scaling == "scaled" else 1.0
    return d_attend(dy, q, k, v, m, keep, y, lse, scale, mask, factor)


def attend(
    q: Array,
    k: Array,
    v: Array,
    m: Array | None,
    keep: Array | None,
    scale: float,
    mask: str,
) -> tuple[Array, Array]:
    """Attention in parts that stay in the cache of a core; scores lie as keys by queries.

    So the sums of a query run along columns, which NumPy adds many at a time.
    """
    y, lse = merging(q, v), np.empty((*q.shape[:-1], 1), q.dtype)
    parts = tiles(q, k, mask)
    for batch in batches(q, k):
        scaled = q[batch] * scale
        for rows, keys, hidden in parts:
            e = scores(scaled[..., rows, :], k[batch][..., keys, :], hidden)
            if m is not None:
                np.copyto(e, -np.inf, where=turned(m[batch], rows, keys) == 0)
            peak = e.max(axis=-2, keepdims=True, initial=-np.inf)
            peak[peak == -np.inf] = 0
            e -= peak
            np.exp(e, out=e)
            total = e.sum(axis=-2, keepdims=True)
            total[total == 0] = 1
            if keep is not None:
                e *= turned(keep[batch], rows, keys)
            out = y[batch][..., rows, :]
            np.matmul(e.swapaxes(-1, -2), v[batch][..., keys, :], out=out)
            out /= total.swapaxes(-1, -2)
            peak += np.log(total)
            lse[batch][..., rows, :] = peak.swapaxes(-1, -2)
    return y, lse


def d_attend(
    dy: Array,
    q: Array,
    k: Array,
    v: Array,
    m: Array | None,
    keep: Array | None,
    y: Array,
    lse: Array,
    scale: float,
    mask: str,
    factor: float,
) -> tuple[Array, Array, Array]:
    """Gradient of attention, its weights computed anew in the same parts."""
    dq, dk, dv = merging(q, q), merging(k, k), merging(v, v)
    dk[...] = 0
    dv[...] = 0
    parts = tiles(q, k, mask)
    for batch in batches(q, k):
        scaled = q[batch] * scale
        delta = np.einsum("...d,...d->...", dy[batch], y[batch])[..., None, :]
        for rows, keys, hidden in parts:
            p = scores(scaled[..., rows, :], k[batch][..., keys, :], hidden)
            if m is not None:
                np.copyto(p, -np.inf, where=turned(m[batch], rows, keys) == 0)
            p -= lse[batch][..., rows, :].swapaxes(-1, -2)
            np.exp(p, out=p)
            d_out = dy[batch][..., rows, :]
            dz = v[batch][..., keys, :] @ d_out.swapaxes(-1, -2)
            kept = p
            if keep is not None:
                kept = p * turned(keep[batch], rows, keys)
                dz *= turned(keep[batch], rows, keys)
                dz *= factor
            dv[batch][..., keys, :] += kept @ d_out
            dz -= delta[..., rows]
            dz *= p
            dk[batch][..., keys, :] += dz @ scaled[..., rows, :]
            columns = k[batch][..., keys, :]
            np.matmul(dz.swapaxes(-1, -2), columns, out=dq[batch][..., rows, :])
    dq *= scale
    dv *= factor
    return dq, dk, dv


def scores(q: Array, k: Array, hidden: Array | None) -> Array:
    """``K Q⊤``, plus `hidden` in the last of its rows."""
    z = k @ q.swapaxes(-1, -2)
    if hidden is not None:
        z[..., z.shape[-2] - hidden.shape[0] :, :] += hidden
    return z


def turned(pairs: Array, rows: slice, keys: slice) -> Array:
    """A part of ``[.., S, S_k]`` as keys by queries."""
    return pairs[..., rows, keys].swapaxes(-1, -2)


def batches(q: Array, k: Array) -> list[Any]:
    """Parts of the first axis whose scores stay in the cache of a core."""
    if q.ndim == 2:
        return [...]
    pairs = math.prod(q.shape[1:-1]) * k.shape[-2]
    step = max(1, 2**17 // max(1, pairs))
    return [slice(start, start + step) for start in range(0, q.shape[0], step)]


def tiles(q: Array, k: Array, mask: str) -> list[tuple[slice, slice, Array | None]]:
    """Queries, the keys that some of them see, and -inf in the last of these where one does not.

    If the mask is causal, query i of S sees the keys up to i + S_k - S.
    """
    S, S_k = q.shape[-2], k.shape[-2]
    if mask == "none":
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


def merging(rows: Array, columns: Array) -> Array:
    """Room ``[.., N, S, D_h]``, in memory ``[.., S, N, D_h]``: merging heads moves nothing."""
    D_h = columns.shape[-1]
    if rows.ndim == 2:
        return np.empty((rows.shape[0], D_h), rows.dtype)
    *leading, N, S, _ = rows.shape
    return np.empty((*leading, S, N, D_h), rows.dtype).swapaxes(-2, -3)
