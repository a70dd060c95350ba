"""Multi-Head Attention: forward and backward pass in NumPy.

Compiled by xg from mha.xg, block MHA. Change the diagram, not this file.

    forward(X [B, S, D]) -> Y [B, S, D]
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Params = dict[str, Array]
DType = Any

D = 64
N_H = 4


class MHASaved(NamedTuple):
    """What `mha` keeps for its backward pass."""

    X: Array  # [B, S, D]
    H: Array  # [B, S, D]
    H_mean: Array  # [B, S, 1]
    H_rstd: Array  # [B, S, 1]
    Q: Array  # [B, N_H, S, D_h]
    KT: Array  # [B, N_H, D_h, S]
    V: Array  # [B, N_H, S, D_h]
    P: Array  # [B, N_H, S, S]
    AS: Array  # [B, N_H, S, S]
    AS_keep: Array | None  # [B, N_H, S, S]
    C: Array  # [B, S, D]
    Y_keep: Array | None  # [B, S, D]


def mha(params: Params, X: Array, *, seed: int | None) -> tuple[Array, MHASaved]:
    """Multi-Head Attention (mha.xg, line 4).

    X [B, S, D] -> Y [B, S, D]
    """
    gamma, beta, W_Q, W_K, W_V, W_O, b_Q, b_K, b_V, b_O = take(
        params, "", "gamma beta W_Q W_K W_V W_O b_Q b_K b_V b_O"
    )
    B, S, D = X.shape
    D_h = D // N_H
    H, H_mean, H_rstd = layer_norm(X, gamma, beta, 1e-05)  # [B, S, D], line 9
    # [B, N_H, S, D_h], line 10
    Q = (H @ W_Q + b_Q).reshape(B, S, N_H, D_h).swapaxes(1, 2)
    # [B, N_H, S, D_h], line 11
    K = (H @ W_K + b_K).reshape(B, S, N_H, D_h).swapaxes(1, 2)
    KT = K.swapaxes(-1, -2)  # [B, N_H, D_h, S], line 12
    # [B, N_H, S, D_h], line 13
    V = (H @ W_V + b_V).reshape(B, S, N_H, D_h).swapaxes(1, 2)
    A = Q @ KT  # [B, N_H, S, S], line 15
    Z = scale_mask(A, 1 / D_h**0.5, S)  # [B, N_H, S, S], line 16
    P = softmax(Z)  # [B, N_H, S, S], line 17
    AS, AS_keep = dropout(P, 0.1, seed, "AS")  # [B, N_H, S, S], line 18
    O = AS @ V  # [B, N_H, S, D_h], line 19
    C = O.swapaxes(1, 2).reshape(B, S, D)  # [B, S, D], line 20
    A_out = C @ W_O + b_O  # [B, S, D], line 21
    Y_1, Y_keep = dropout(A_out, 0.1, seed, "DO_1")  # [B, S, D], line 22
    Y = Y_1 + X  # [B, S, D], line 22
    return Y, MHASaved(X, H, H_mean, H_rstd, Q, KT, V, P, AS, AS_keep, C, Y_keep)


def d_mha(params: Params, saved: MHASaved, dY: Array, grads: Params) -> Array:
    """Backward pass of Multi-Head Attention (mha.xg, line 4)."""
    gamma, W_Q, W_K, W_V, W_O = take(params, "", "gamma W_Q W_K W_V W_O")
    B, S, D = saved.X.shape
    N_H = saved.Q.shape[1]
    D_h = saved.Q.shape[3]
    dA_out = d_dropout(dY, saved.Y_keep, 0.1)  # [B, S, D], dDO of line 22
    db_O = dA_out.sum(axis=(0, 1))  # [D], dBC of line 21
    dC = dA_out @ W_O.T  # [B, S, D], d• of line 21
    dW_O = saved.C.reshape(-1, D).T @ dA_out.reshape(-1, D)  # [D, D], d• of line 21
    dO = dC.reshape(B, S, N_H, D_h).swapaxes(1, 2)  # [B, N_H, S, D_h], dR of line 20
    dAS = dO @ saved.V.swapaxes(-1, -2)  # [B, N_H, S, S], d• of line 19
    dV = saved.AS.swapaxes(-1, -2) @ dO  # [B, N_H, S, D_h], d• of line 19
    dP = d_dropout(dAS, saved.AS_keep, 0.1)  # [B, N_H, S, S], dDO of line 18
    dZ = d_softmax(dP, saved.P)  # [B, N_H, S, S], dS of line 17
    dA = d_scale_mask(dZ, 1 / D_h**0.5, S)  # [B, N_H, S, S], dSM of line 16
    dQ = dA @ saved.KT.swapaxes(-1, -2)  # [B, N_H, S, D_h], d• of line 15
    dKT = saved.Q.swapaxes(-1, -2) @ dA  # [B, N_H, D_h, S], d• of line 15
    dV_1 = dV.swapaxes(1, 2).reshape(B, S, D)  # [B, S, D], dR of line 13
    db_V = dV_1.sum(axis=(0, 1))  # [D], dBC of line 13
    dW_V = saved.H.reshape(-1, D).T @ dV_1.reshape(-1, D)  # [D, D], d• of line 13
    dK = dKT.swapaxes(-1, -2)  # [B, N_H, S, D_h], dT of line 12
    dK_1 = dK.swapaxes(1, 2).reshape(B, S, D)  # [B, S, D], dR of line 11
    db_K = dK_1.sum(axis=(0, 1))  # [D], dBC of line 11
    dW_K = saved.H.reshape(-1, D).T @ dK_1.reshape(-1, D)  # [D, D], d• of line 11
    dQ_1 = dQ.swapaxes(1, 2).reshape(B, S, D)  # [B, S, D], dR of line 10
    db_Q = dQ_1.sum(axis=(0, 1))  # [D], dBC of line 10
    dW_Q = saved.H.reshape(-1, D).T @ dQ_1.reshape(-1, D)  # [D, D], d• of line 10
    # [B, S, D], d•, sum of a fan-out of lines 9-13
    dH = dV_1 @ W_V.T + dK_1 @ W_K.T + dQ_1 @ W_Q.T
    # [B, S, D], dLN of line 9
    dX_LN, dgamma, dbeta = d_layer_norm(dH, saved.X, gamma, saved.H_mean, saved.H_rstd)
    dX = dY + dX_LN  # [B, S, D], sum of a fan-out of line 4
    grads |= {
        "gamma": dgamma,
        "beta": dbeta,
        "W_Q": dW_Q,
        "W_K": dW_K,
        "W_V": dW_V,
        "W_O": dW_O,
        "b_Q": db_Q,
        "b_K": db_K,
        "b_V": db_V,
        "b_O": db_O,
    }
    return dX


def table(*, D: int) -> dict[str, tuple[tuple[int, ...], float | str]]:
    """Name, shape and start of every parameter: a word, or the deviation of a normal."""
    starts: dict[str, tuple[tuple[int, ...], float | str]] = {}
    starts |= {
        "gamma": ((D,), "ones"),
        "beta": ((D,), "zeros"),
        "W_Q": ((D, D), D**-0.5),
        "W_K": ((D, D), D**-0.5),
        "W_V": ((D, D), D**-0.5),
        "W_O": ((D, D), D**-0.5),
        "b_Q": ((D,), "zeros"),
        "b_K": ((D,), "zeros"),
        "b_V": ((D,), "zeros"),
        "b_O": ((D,), "zeros"),
    }
    return starts


def init(seed: int = 0, dtype: DType = np.float32, *, D: int = D) -> Params:
    """Parameters by their names in the diagram, drawn from the seed."""
    params: Params = {}
    starts = table(D=D)
    for name, (shape, start) in starts.items():
        if start == "ones":
            params[name] = np.ones(shape, dtype)
        elif start == "zeros":
            params[name] = np.zeros(shape, dtype)
        else:
            params[name] = normal(seed, name, shape, float(start)).astype(dtype)
    return params


def forward(
    params: Params, inputs: Mapping[str, Array], *, seed: int | None = None
) -> tuple[dict[str, Array], MHASaved]:
    """Outputs by name, and what `backward` needs; without a seed dropout is off."""
    B, S, D = array(inputs, "X", 3).shape
    starts = table(D=D)
    shapes = {name: shape for name, (shape, _) in starts.items()}
    shapes["X"] = (B, S, D)
    check({**inputs, **params}, shapes)
    Y, saved = mha(params, inputs["X"], seed=seed)
    return {"Y": Y}, saved


def backward(params: Params, saved: MHASaved, d_outputs: Mapping[str, Array]) -> Params:
    """Gradients of all parameters and float inputs by name; no cotangent means zero."""
    dtype = next(iter({**params, **d_outputs}.values())).dtype
    B, S, D = saved.X.shape
    dY = d_outputs.get("Y")
    if dY is None:
        dY = np.zeros((B, S, D), dtype)
    grads: Params = {}
    dX = d_mha(params, saved, dY, grads)
    grads["X"] = dX
    for name in [name for name in params if name not in grads]:
        grads[name] = np.zeros_like(params[name])
    return grads


def check(arrays: Mapping[str, Array], shapes: Mapping[str, tuple[int, ...]]) -> None:
    """Refuse arrays that are missing or that do not agree on the sizes."""
    for name, shape in shapes.items():
        if name not in arrays:
            raise ValueError(f"{name} {list(shape)} is missing")
        if arrays[name].shape != shape:
            found = list(arrays[name].shape)
            raise ValueError(f"{name} should have shape {list(shape)}, not {found}")


def array(arrays: Mapping[str, Array], name: str, axes: int) -> Array:
    """An array by its name, refused if it is missing or has another number of axes."""
    if name not in arrays:
        raise ValueError(f"{name} is missing")
    if arrays[name].ndim != axes:
        found = list(arrays[name].shape)
        raise ValueError(f"{name} should have {axes} axes, not shape {found}")
    return arrays[name]


def take(params: Params, at: str, names: str) -> list[Array]:
    """The named parameters of the call at a path."""
    return [params[f"{at}.{name}" if at else name] for name in names.split()]


def layer_norm(
    x: Array, gamma: Array, beta: Array, eps: float
) -> tuple[Array, Array, Array]:
    """Normalizes the last axis, or the one in brackets, to mean 0 and variance 1, then
    scales by γ and shifts by β: Y = x̂ ⊙ γ + β, x̂ = (X - μ) / sqrt(σ² + ε).
    """
    mean = x.mean(axis=-1, keepdims=True)
    centred = x - mean
    rstd = 1 / np.sqrt((centred**2).mean(axis=-1, keepdims=True) + eps)
    return centred * rstd * gamma + beta, mean, rstd


def scale_mask(a: Array, scale: float, S: int) -> Array:
    """Scales scores; -inf where the mask is 0, and (causal) where key j > query i + S_k
    - S: Z = α A + M, M = 0 or -inf.
    """
    visible = np.arange(S)[..., None] >= np.arange(S)
    return np.where(visible, a * scale, -np.inf)


def softmax(z: Array) -> Array:
    """Softmax over the last axis, or the one in brackets; a row that is masked
    everywhere gives zeros: p_i = exp(z_i) / Σ_j exp(z_j).
    """
    peak = z.max(axis=-1, keepdims=True)
    e = np.exp(z - np.where(peak > -np.inf, peak, 0))
    total = e.sum(axis=-1, keepdims=True)
    return e / np.where(total > 0, total, 1)


def dropout(
    x: Array, p: float, seed: int | None, place: str
) -> tuple[Array, Array | None]:
    """Drops numbers with probability p; `scaled` keeps the mean, `unscaled` is the
    seed's: Y = m ⊙ X / (1 - p), m = 0 or 1.
    """
    keep = keep_mask(x.shape, p, seed, place)
    return drop(x, keep, 1 - p), keep


def d_dropout(dy: Array, keep: Array | None, p: float) -> Array:
    """Gradient of dropout: dX = m ⊙ dY / (1 - p)."""
    return drop(dy, keep, 1 - p)


def d_softmax(dp: Array, p: Array) -> Array:
    """Gradient of softmax: dZ = (dP - Σ dP ⊙ P) ⊙ P, Σ over that axis."""
    return (dp - (dp * p).sum(axis=-1, keepdims=True)) * p


def d_scale_mask(dz: Array, scale: float, S: int) -> Array:
    """Gradient of scale_mask: dA = α dZ, 0 where masked."""
    visible = np.arange(S)[..., None] >= np.arange(S)
    return np.where(visible, dz * scale, 0)


def d_layer_norm(
    dy: Array, x: Array, gamma: Array, mean: Array, rstd: Array
) -> tuple[Array, Array, Array]:
    """Gradient of layer_norm: dX = (dx̂ - mean(dx̂) - x̂ mean(dx̂ x̂)) / sqrt(σ² + ε)
    with dx̂ = dY ⊙ γ, dγ = Σ dY ⊙ x̂, dβ = Σ dY.
    """
    dx_hat = dy * gamma
    x_hat = (x - mean) * rstd
    part = x_hat * (dx_hat * x_hat).mean(axis=-1, keepdims=True)
    dx = rstd * (dx_hat - dx_hat.mean(axis=-1, keepdims=True) - part)
    dgamma = (dy * x_hat).sum(axis=(0, 1))
    dbeta = dy.sum(axis=(0, 1))
    return dx, dgamma, dbeta


def drop(x: Array, keep: Array | None, kept: float) -> Array:
    """`x` where it stays, scaled by 1/kept, else 0; `x` itself when nothing is dropped."""
    return x if keep is None else x * keep * (1 / kept)


def keep_mask(
    shape: tuple[int, ...],
    p: float,
    seed: int | None,
    place: str,
) -> Array | None:
    """Which elements dropout keeps; None (all of them) without a seed."""
    if seed is None:
        return None
    drawn = random_words(random_key(seed, place), int(np.prod(shape)))
    return (drawn >> np.uint64(40) >= np.uint64(round(p * 2**24))).reshape(shape)


def normal(seed: int, place: str, shape: tuple[int, ...], deviation: float) -> Array:
    """Nearly normal numbers: a sum of four uniforms of 16 bits, from integers alone."""
    drawn = random_words(random_key(seed, place), int(np.prod(shape)))
    centred = np.full(drawn.shape, -2 * 65535, np.int64)
    for lane in range(4):
        centred += (drawn >> np.uint64(16 * lane) & np.uint64(65535)).astype(np.int64)
    return (centred * (deviation / ((65536**2 - 1) / 3) ** 0.5)).reshape(shape)


def random_key(seed: int, place: str) -> int:
    """A key for the random numbers of one place: FNV-1a of its name, mixed with the seed."""
    digest = 0xCBF29CE484222325
    for byte in place.encode():
        digest = (digest ^ byte) * 0x100000001B3 % 2**64
    return _mix(_mix(seed % 2**64) ^ digest)


def _mix(z: int) -> int:
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 % 2**64
    z = (z ^ z >> 27) * 0x94D049BB133111EB % 2**64
    return z ^ z >> 31


def random_words(key: int, count: int) -> NDArray[np.uint64]:
    """Random 64-bit words, one per element (SplitMix64): word i depends on key and i alone."""
    return words_at(key, np.arange(count, dtype=np.uint64))


def words_at(key: int, index: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The words of some elements, by their places in the whole."""
    z = (index + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    z += np.uint64(key)
    z = (z ^ z >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ z >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
    return z ^ z >> np.uint64(31)
