"""Kernels of NumPy: operators by hand, in place where a body would make a new array each time.

Ordinary, tested code; `kernel_tables` says which operator each computes, the module's text is taken
from here. A kernel writes into what it is given only where the table says so.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


# ---- products -----------------------------------------------------------------------------------


def product(a: Array, b: Array) -> Array:
    """A B as one product of matrices: NumPy would make one for each leading axis."""
    rows = a.reshape(-1, a.shape[-1]) @ b
    return rows.reshape(*a.shape[:-1], b.shape[1])


def product_with_transpose(a: Array, b: Array) -> Array:
    """A B⊤ as one product of matrices."""
    rows = a.reshape(-1, a.shape[-1]) @ b.T
    return rows.reshape(*a.shape[:-1], b.shape[0])


def linear(x: Array, w: Array, b: Array) -> Array:
    """X W + b, the bias added in place."""
    y = x.reshape(-1, x.shape[-1]) @ w
    y += b
    return y.reshape(*x.shape[:-1], w.shape[1])


def tall_by_columns(w: Array) -> Array:
    """Large matrices of more rows than columns, a column's numbers beside each other.

    So a product of one row takes 0.55 to 0.75 of the time; of others it takes more.
    """
    if w.ndim < 2 or w.shape[-2] <= w.shape[-1] or w.shape[-2] * w.shape[-1] < 2**16:
        return w
    return w.swapaxes(-1, -2).astype(w.dtype, order="C").swapaxes(-1, -2)


# ---- sums ---------------------------------------------------------------------------------------


def add_to_first(a: Array, b: Array) -> Array:
    """A + B in place of A, which nothing else reads, if it has the type of the sum."""
    if np.result_type(a, b) != a.dtype:
        return a + b
    a += b
    return a


def add_to_second(a: Array, b: Array) -> Array:
    """A + B in place of B, which nothing else reads, if it has the type of the sum."""
    if np.result_type(a, b) != b.dtype:
        return a + b
    b += a
    return b


# ---- activations --------------------------------------------------------------------------------


def softmax(z: Array) -> Array:
    """Softmax over the last axis: p_i = exp(z_i) / Σ_j exp(z_j).

    A row that is masked everywhere gives zeros.
    """
    peak = z.max(axis=-1, keepdims=True)
    p = z - np.where(peak > -np.inf, peak, 0)
    np.exp(p, out=p)
    total = p.sum(axis=-1, keepdims=True)
    p /= np.where(total == 0, 1, total)
    return p


def d_softmax(dp: Array, p: Array) -> Array:
    """Gradient of softmax: dZ = (dP - Σ dP ⊙ P) ⊙ P."""
    dz = dp - np.einsum("...j,...j->...", dp, p)[..., None]
    dz *= p
    return dz


def gelu_tanh(x: Array) -> Array:
    """GELU by its tanh form: Y = X ⊙ (1 + tanh(c X + d X³)) / 2.

    c = sqrt(2/π), d = 0.044715 c.
    """
    y = (x * x)[...]  # an array also of no axes, where NumPy makes a number
    y *= 0.035677408136300125
    y += 0.7978845608028654
    y *= x
    np.tanh(y, out=y)
    y += 1
    y *= x
    y *= 0.5
    return y


def d_gelu_tanh(dy: Array, x: Array) -> Array:
    """Gradient of GELU by its tanh form.

    dX = dY ⊙ T (1 + X ⊙ (c + 3 d X²) (2 - T)) / 2 with T = 1 + tanh(c X + d X³),
    c = sqrt(2/π), d = 0.044715 c.
    """
    slope = x * x
    top = (slope * 0.035677408136300125)[...]
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


def layer_norm(
    x: Array,
    gamma: Array,
    beta: Array,
    eps: float,
) -> tuple[Array, Array, Array]:
    """Layer normalization: Y = x̂ ⊙ γ + β, x̂ = (X - μ) / sqrt(σ² + ε).

    The mean comes first, then the mean square of what is left.
    """
    return normalized(x, gamma, beta, eps)


def layer_norm_output(x: Array, gamma: Array, beta: Array, eps: float) -> Array:
    """Layer normalization alone: Y = x̂ ⊙ γ + β, x̂ = (X - μ) / sqrt(σ² + ε)."""
    return normalized(x, gamma, beta, eps)[0]


def normalized(
    x: Array,
    gamma: Array,
    beta: Array,
    eps: float,
) -> tuple[Array, Array, Array]:
    """Rows of mean 0 and variance 1, scaled and shifted, and what made them so."""
    mean = x.sum(axis=-1, keepdims=True) / x.shape[-1]
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
    """Gradient of layer normalization: dγ = Σ dY ⊙ x̂, dβ = Σ dY.

    dX = (dx̂ - mean(dx̂) - x̂ mean(dx̂ x̂)) / sqrt(σ² + ε) with dx̂ = dY ⊙ γ.
    """
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


def cross_entropy(z: Array, t: Array, count: float) -> tuple[Array, Array]:
    """Cross-entropy by log-sum-exp: loss = Σ (log Σ_j exp(z_j) - z_t) / count."""
    peak = z.max(axis=-1, keepdims=True)
    e = z - peak
    np.exp(e, out=e)
    lse = np.log(e.sum(axis=-1, keepdims=True))
    lse += peak
    return (lse - np.take_along_axis(z, t[..., None], axis=-1)).sum() / count, lse


def d_cross_entropy(dloss: Array, z: Array, t: Array, lse: Array, count: float) -> Array:
    """Gradient of cross-entropy: dZ = (softmax(Z) - onehot(t)) / count · dloss."""
    dz = np.ascontiguousarray(z - lse)  # so that its rows are no copies
    np.exp(dz, out=dz)
    rows = dz.reshape(-1, z.shape[-1])
    rows[np.arange(t.size), t.reshape(-1)] -= 1
    dz *= dloss / count
    return dz
