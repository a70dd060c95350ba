"""Language Model: forward and backward pass in NumPy.

Compiled by xg from transformer.xg, block LM. Change the diagram, not this file.

    forward(ids [B, S] in V, t [B, S] in V) -> Z [B, S, V], loss []
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
N_L = 4
S_max = 512
V = 256


class AttentionSaved(NamedTuple):
    """What `attention` keeps for its backward pass."""

    X: Array  # [B, S, D]
    M: Array  # [B, S_k, D]
    Q: Array  # [B, N_H, S, D_h]
    KT: Array  # [B, N_H, D_h, S_k]
    V: Array  # [B, N_H, S_k, D_h]
    P: Array  # [B, N_H, S, S_k]
    AS: Array  # [B, N_H, S, S_k]
    AS_keep: Array | None  # [B, N_H, S, S_k]
    O: Array  # [B, S, D]


def attention(
    params: Params, at: str, X: Array, M: Array, *, seed: int | None
) -> tuple[Array, AttentionSaved]:
    """Multi-Head Attention (transformer.xg, line 12).

    X [B, S, D], M [B, S_k, D] -> Y [B, S, D]
    """
    W_Q, W_K, W_V, W_O, b_Q, b_K, b_V, b_O = take(
        params, at, "W_Q W_K W_V W_O b_Q b_K b_V b_O"
    )
    B, S, D = X.shape
    S_k = M.shape[1]
    D_h = D // N_H
    # [B, N_H, S, D_h], line 15
    Q = (X @ W_Q + b_Q).reshape(B, S, N_H, D_h).swapaxes(1, 2)
    # [B, N_H, S_k, D_h], line 16
    K = (M @ W_K + b_K).reshape(B, S_k, N_H, D_h).swapaxes(1, 2)
    KT = K.swapaxes(-1, -2)  # [B, N_H, D_h, S_k], line 17
    # [B, N_H, S_k, D_h], line 18
    V = (M @ W_V + b_V).reshape(B, S_k, N_H, D_h).swapaxes(1, 2)
    P = softmax(scale_mask(Q @ KT, 1 / D_h**0.5, S, S_k))  # [B, N_H, S, S_k], line 20
    AS, AS_keep = dropout(P, 0.1, seed, f"{at}.AS")  # [B, N_H, S, S_k], line 21
    O = (AS @ V).swapaxes(1, 2).reshape(B, S, D)  # [B, S, D], line 22
    Y = O @ W_O + b_O  # [B, S, D], line 23
    return Y, AttentionSaved(X, M, Q, KT, V, P, AS, AS_keep, O)


def d_attention(
    params: Params, at: str, saved: AttentionSaved, dY: Array, grads: Params
) -> tuple[Array, Array]:
    """Backward pass of Multi-Head Attention (transformer.xg, line 12)."""
    W_Q, W_K, W_V, W_O = take(params, at, "W_Q W_K W_V W_O")
    B, S, D = saved.X.shape
    S_k = saved.M.shape[1]
    N_H = saved.Q.shape[1]
    D_h = saved.Q.shape[3]
    db_O = dY.sum(axis=(0, 1))  # [D], dBC of line 23
    dO = dY @ W_O.T  # [B, S, D], d• of line 23
    dW_O = saved.O.reshape(-1, D).T @ dY.reshape(-1, D)  # [D, D], d• of line 23
    dO_1 = dO.reshape(B, S, N_H, D_h).swapaxes(1, 2)  # [B, N_H, S, D_h], dR of line 22
    dAS = dO_1 @ saved.V.swapaxes(-1, -2)  # [B, N_H, S, S_k], d• of line 22
    dV = saved.AS.swapaxes(-1, -2) @ dO_1  # [B, N_H, S_k, D_h], d• of line 22
    dP = d_dropout(dAS, saved.AS_keep, 0.1)  # [B, N_H, S, S_k], dDO of line 21
    dP_1 = d_softmax(dP, saved.P)  # [B, N_H, S, S_k], dS of line 20
    dP_2 = d_scale_mask(dP_1, 1 / D_h**0.5, S, S_k)  # [B, N_H, S, S_k], dSM of line 20
    dQ = dP_2 @ saved.KT.swapaxes(-1, -2)  # [B, N_H, S, D_h], d• of line 20
    dKT = saved.Q.swapaxes(-1, -2) @ dP_2  # [B, N_H, D_h, S_k], d• of line 20
    dV_1 = dV.swapaxes(1, 2).reshape(B, S_k, D)  # [B, S_k, D], dR of line 18
    db_V = dV_1.sum(axis=(0, 1))  # [D], dBC of line 18
    dW_V = saved.M.reshape(-1, D).T @ dV_1.reshape(-1, D)  # [D, D], d• of line 18
    dK = dKT.swapaxes(-1, -2)  # [B, N_H, S_k, D_h], dT of line 17
    dK_1 = dK.swapaxes(1, 2).reshape(B, S_k, D)  # [B, S_k, D], dR of line 16
    db_K = dK_1.sum(axis=(0, 1))  # [D], dBC of line 16
    dW_K = saved.M.reshape(-1, D).T @ dK_1.reshape(-1, D)  # [D, D], d• of line 16
    dQ_1 = dQ.swapaxes(1, 2).reshape(B, S, D)  # [B, S, D], dR of line 15
    db_Q = dQ_1.sum(axis=(0, 1))  # [D], dBC of line 15
    dX = dQ_1 @ W_Q.T  # [B, S, D], d• of line 15
    dW_Q = saved.X.reshape(-1, D).T @ dQ_1.reshape(-1, D)  # [D, D], d• of line 15
    dM = dV_1 @ W_V.T + dK_1 @ W_K.T  # [B, S_k, D], d•, sum of a fan-out of lines 12-18
    grads |= {
        f"{at}.W_Q": dW_Q,
        f"{at}.W_K": dW_K,
        f"{at}.W_V": dW_V,
        f"{at}.W_O": dW_O,
        f"{at}.b_Q": db_Q,
        f"{at}.b_K": db_K,
        f"{at}.b_V": db_V,
        f"{at}.b_O": db_O,
    }
    return dX, dM


class MLPSaved(NamedTuple):
    """What `mlp` keeps for its backward pass."""

    X: Array  # [B, S, D]
    U_1: Array  # [B, S, D_ff]
    U: Array  # [B, S, D_ff]


def mlp(params: Params, at: str, X: Array) -> tuple[Array, MLPSaved]:
    """MLP (transformer.xg, line 26).

    X [B, S, D] -> Y [B, S, D]
    """
    W_up, b_up, W_down, b_down = take(params, at, "W_up b_up W_down b_down")
    U_1 = X @ W_up + b_up  # [B, S, D_ff], line 29
    U = gelu(U_1)  # [B, S, D_ff], line 29
    Y = U @ W_down + b_down  # [B, S, D], line 30
    return Y, MLPSaved(X, U_1, U)


def d_mlp(params: Params, at: str, saved: MLPSaved, dY: Array, grads: Params) -> Array:
    """Backward pass of MLP (transformer.xg, line 26)."""
    W_up, W_down = take(params, at, "W_up W_down")
    D = saved.X.shape[2]
    D_ff = saved.U_1.shape[2]
    db_down = dY.sum(axis=(0, 1))  # [D], dBC of line 30
    dU = dY @ W_down.T  # [B, S, D_ff], d• of line 30
    # [D_ff, D], d• of line 30
    dW_down = saved.U.reshape(-1, D_ff).T @ dY.reshape(-1, D)
    dU_1 = d_gelu(dU, saved.U_1)  # [B, S, D_ff], dGELU of line 29
    db_up = dU_1.sum(axis=(0, 1))  # [D_ff], dBC of line 29
    dX = dU_1 @ W_up.T  # [B, S, D], d• of line 29
    # [D, D_ff], d• of line 29
    dW_up = saved.X.reshape(-1, D).T @ dU_1.reshape(-1, D_ff)
    grads |= {
        f"{at}.W_up": dW_up,
        f"{at}.b_up": db_up,
        f"{at}.W_down": dW_down,
        f"{at}.b_down": db_down,
    }
    return dX


class LayerSaved(NamedTuple):
    """What `layer` keeps for its backward pass."""

    X: Array  # [B, S, D]
    H_mean: Array  # [B, S, 1]
    H_rstd: Array  # [B, S, 1]
    attn: AttentionSaved
    M_keep: Array | None  # [B, S, D]
    M: Array  # [B, S, D]
    Y_mean: Array  # [B, S, 1]
    Y_rstd: Array  # [B, S, 1]
    ffn: MLPSaved
    Y_keep: Array | None  # [B, S, D]


def layer(
    params: Params, at: str, X: Array, *, seed: int | None
) -> tuple[Array, LayerSaved]:
    """Transformer Layer (transformer.xg, line 40).

    X [B, S, D] -> Y [B, S, D]
    """
    gamma_1, gamma_2, beta_1, beta_2 = take(params, at, "gamma_1 gamma_2 beta_1 beta_2")
    H, H_mean, H_rstd = layer_norm(X, gamma_1, beta_1, 1e-05)  # [B, S, D], line 43
    # [B, S, D], line 44
    M_1, attn_saved = attention(params, f"{at}.attn", H, H, seed=seed)
    M_2, M_keep = dropout(M_1, 0.1, seed, f"{at}.DO_1")  # [B, S, D], line 44
    M = M_2 + X  # [B, S, D], line 44
    Y_1, Y_mean, Y_rstd = layer_norm(M, gamma_2, beta_2, 1e-05)  # [B, S, D], line 46
    # [B, S, D], line 47
    Y_2, ffn_saved = mlp(params, f"{at}.ffn", Y_1)
    Y_3, Y_keep = dropout(Y_2, 0.1, seed, f"{at}.DO_2")  # [B, S, D], line 47
    Y = Y_3 + M  # [B, S, D], line 47
    saved = LayerSaved(
        X, H_mean, H_rstd, attn_saved, M_keep, M, Y_mean, Y_rstd, ffn_saved, Y_keep
    )
    return Y, saved


def d_layer(
    params: Params, at: str, saved: LayerSaved, dY: Array, grads: Params
) -> Array:
    """Backward pass of Transformer Layer (transformer.xg, line 40)."""
    gamma_1, gamma_2 = take(params, at, "gamma_1 gamma_2")
    dY_2 = d_dropout(dY, saved.Y_keep, 0.1)  # [B, S, D], dDO of line 47
    # dMLP, line 47
    dY_1 = d_mlp(params, f"{at}.ffn", saved.ffn, dY_2, grads)
    # [B, S, D], dLN of line 46
    dM_LN, dgamma_2, dbeta_2 = d_layer_norm(
        dY_1, saved.M, gamma_2, saved.Y_mean, saved.Y_rstd
    )
    dM = dY + dM_LN  # [B, S, D], sum of a fan-out of line 45
    dM_1 = d_dropout(dM, saved.M_keep, 0.1)  # [B, S, D], dDO of line 44
    # dAttention, line 44
    dH_attn, dH_attn_2 = d_attention(params, f"{at}.attn", saved.attn, dM_1, grads)
    dH = dH_attn + dH_attn_2  # [B, S, D], sum of a fan-out of line 43
    # [B, S, D], dLN of line 43
    dX_LN, dgamma_1, dbeta_1 = d_layer_norm(
        dH, saved.X, gamma_1, saved.H_mean, saved.H_rstd
    )
    dX = dM + dX_LN  # [B, S, D], sum of a fan-out of line 40
    grads |= {
        f"{at}.gamma_1": dgamma_1,
        f"{at}.gamma_2": dgamma_2,
        f"{at}.beta_1": dbeta_1,
        f"{at}.beta_2": dbeta_2,
    }
    return dX


class LMSaved(NamedTuple):
    """What `lm` keeps for its backward pass."""

    ids: Array  # [B, S]
    t: Array  # [B, S]
    PE_1: Array  # [S]
    Y_1: Array  # [B, S, D]
    layers: list[LayerSaved]
    Y: Array  # [B, S, D]
    Y_mean: Array  # [B, S, 1]
    Y_rstd: Array  # [B, S, 1]
    Z_1: Array  # [D, V]
    Z: Array  # [B, S, V]
    loss_lse: Array  # [B, S, 1]


def lm(
    params: Params, ids: Array, t: Array, *, seed: int | None
) -> tuple[Array, Array, LMSaved]:
    """Language Model (transformer.xg, line 51).

    ids [B, S], t [B, S] -> Z [B, S, V], loss []
    """
    E, P, gamma, beta = take(params, "", "E P gamma beta")
    B, S = ids.shape
    PE_1 = np.arange(S)  # [S], line 54
    PE = P[PE_1]  # [S, D], line 54
    X = E[ids] + PE  # [B, S, D], lines 55-56
    # [B, S, D], line 58
    Y_1 = X
    layers_saved: list[LayerSaved] = []
    for i in range(N_L):
        Y_1, one = layer(params, f"layers.{i}", Y_1, seed=seed)
        layers_saved.append(one)
    Y, Y_mean, Y_rstd = layer_norm(Y_1, gamma, beta, 1e-05)  # [B, S, D], line 59
    Z_1 = E.T  # [D, V], line 60
    Z = Y @ Z_1  # [B, S, V], line 60
    loss, loss_lse = cross_entropy(Z, t, B * S)  # [], line 61
    saved = LMSaved(
        ids, t, PE_1, Y_1, layers_saved, Y, Y_mean, Y_rstd, Z_1, Z, loss_lse
    )
    return Z, loss, saved


def d_lm(
    params: Params, saved: LMSaved, dZ: Array, dloss: Array, grads: Params
) -> None:
    """Backward pass of Language Model (transformer.xg, line 51)."""
    gamma = params["gamma"]
    B, S = saved.ids.shape
    D = saved.Y_1.shape[2]
    V = saved.Z_1.shape[1]
    S_max = params["P"].shape[0]
    # [B, S, V], dCE of line 61
    dZ_CE = d_cross_entropy(dloss, saved.Z, saved.t, saved.loss_lse, B * S, B, S, V)
    dZ_2 = dZ + dZ_CE  # [B, S, V], sum of a fan-out of line 60
    dY = dZ_2 @ saved.Z_1.T  # [B, S, D], d• of line 60
    # [B, S, D], dLN of line 59
    dY_1, dgamma, dbeta = d_layer_norm(dY, saved.Y_1, gamma, saved.Y_mean, saved.Y_rstd)
    # dLayer, line 58
    dX = dY_1
    for i, one in reversed(list(enumerate(saved.layers))):
        dX = d_layer(params, f"layers.{i}", one, dX, grads)
    dPE = dX.sum(axis=0)  # [S, D], dBC of line 56
    dP = scatter_add(dPE, saved.PE_1, S_max)  # [S_max, D], dEmb of line 54
    # [V, D], d•, dT of line 60
    dE_T = (saved.Y.reshape(-1, D).T @ dZ_2.reshape(-1, V)).T
    # [V, D], d•, dT, dEmb, sum of a fan-out of lines 52-60
    dE = dE_T + scatter_add(dX, saved.ids, V)
    grads |= {
        "E": dE,
        "P": dP,
        "gamma": dgamma,
        "beta": dbeta,
    }


def table(
    *, V: int, D: int, S_max: int, N_L: int, D_ff: int
) -> dict[str, tuple[tuple[int, ...], float | str]]:
    """Name, shape and start of every parameter: a word, or the deviation of a normal."""
    starts: dict[str, tuple[tuple[int, ...], float | str]] = {}
    starts |= {
        "E": ((V, D), D**-0.5),
        "P": ((S_max, D), D**-0.5),
        "gamma": ((D,), "ones"),
        "beta": ((D,), "zeros"),
    }
    for i in range(N_L):
        starts |= {
            f"layers.{i}.gamma_1": ((D,), "ones"),
            f"layers.{i}.gamma_2": ((D,), "ones"),
            f"layers.{i}.beta_1": ((D,), "zeros"),
            f"layers.{i}.beta_2": ((D,), "zeros"),
        }
        starts |= {
            f"layers.{i}.attn.W_Q": ((D, D), D**-0.5),
            f"layers.{i}.attn.W_K": ((D, D), D**-0.5),
            f"layers.{i}.attn.W_V": ((D, D), D**-0.5),
            f"layers.{i}.attn.W_O": ((D, D), D**-0.5),
            f"layers.{i}.attn.b_Q": ((D,), "zeros"),
            f"layers.{i}.attn.b_K": ((D,), "zeros"),
            f"layers.{i}.attn.b_V": ((D,), "zeros"),
            f"layers.{i}.attn.b_O": ((D,), "zeros"),
        }
        starts |= {
            f"layers.{i}.ffn.W_up": ((D, D_ff), D**-0.5),
            f"layers.{i}.ffn.b_up": ((D_ff,), "zeros"),
            f"layers.{i}.ffn.W_down": ((D_ff, D), D_ff**-0.5),
            f"layers.{i}.ffn.b_down": ((D,), "zeros"),
        }
    return starts


def init(
    seed: int = 0,
    dtype: DType = np.float32,
    *,
    V: int = V,
    D: int = D,
    S_max: int = S_max,
) -> Params:
    """Parameters by their names in the diagram, drawn from the seed."""
    params: Params = {}
    D_ff = 4 * D
    starts = table(V=V, D=D, S_max=S_max, N_L=N_L, D_ff=D_ff)
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
) -> tuple[dict[str, Array], LMSaved]:
    """Outputs by name, and what `backward` needs; without a seed dropout is off."""
    B, S = array(inputs, "ids", 2).shape
    V, D = array(params, "E", 2).shape
    S_max = array(params, "P", 2).shape[0]
    D_ff = 4 * D
    starts = table(V=V, D=D, S_max=S_max, N_L=N_L, D_ff=D_ff)
    shapes = {name: shape for name, (shape, _) in starts.items()}
    shapes["ids"] = (B, S)
    shapes["t"] = (B, S)
    check({**inputs, **params}, shapes)
    Z, loss, saved = lm(params, inputs["ids"], inputs["t"], seed=seed)
    return {"Z": Z, "loss": loss}, saved


def backward(params: Params, saved: LMSaved, d_outputs: Mapping[str, Array]) -> Params:
    """Gradients of all parameters and float inputs by name; no cotangent means zero."""
    dtype = next(iter({**params, **d_outputs}.values())).dtype
    B, S = saved.ids.shape
    V = saved.Z_1.shape[1]
    dZ = d_outputs.get("Z")
    if dZ is None:
        dZ = np.zeros((B, S, V), dtype)
    dloss = d_outputs.get("loss")
    if dloss is None:
        dloss = np.zeros((), dtype)
    grads: Params = {}
    d_lm(params, saved, dZ, dloss, grads)
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


def scale_mask(a: Array, scale: float, S: int, S_k: int) -> Array:
    """Scales scores; -inf where the mask is 0, and (causal) where key j > query i + S_k
    - S: Z = α A + M, M = 0 or -inf.
    """
    visible = np.arange(-S + S_k, S_k)[..., None] >= np.arange(S_k)
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


def d_scale_mask(dz: Array, scale: float, S: int, S_k: int) -> Array:
    """Gradient of scale_mask: dA = α dZ, 0 where masked."""
    visible = np.arange(-S + S_k, S_k)[..., None] >= np.arange(S_k)
    return np.where(visible, dz * scale, 0)


def gelu(x: Array) -> Array:
    """X times the probability that a normal number is below x; `tanh` approximates it:
    Y = X ⊙ (1 + tanh(sqrt(2/π) (X + 0.044715 X³))) / 2; exact: (1 + erf(X/sqrt(2)))
    / 2.
    """
    t = np.tanh(0.7978845608028654 * x * (1 + 0.044715 * x**2))
    return 0.5 * x * (1 + t)


def d_gelu(dy: Array, x: Array) -> Array:
    """Gradient of gelu: dX = dY ⊙ g'(X)."""
    t = np.tanh(0.7978845608028654 * x * (1 + 0.044715 * x**2))
    d_inner = 0.7978845608028654 * (1 + 0.134145 * x**2)
    slope = 0.5 * (1 + t) + 0.5 * x * (1 - t**2) * d_inner
    return dy * slope


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


def cross_entropy(z: Array, t: Array, count: float) -> tuple[Array, Array]:
    """Cross-entropy of the softmax of logits with integer targets, over those that
    count: loss = Σ w (log Σ_j exp(z_j) - z_t) / Σ w.
    """
    peak = z.max(axis=-1, keepdims=True)
    shifted = z - peak
    log_total = np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
    lse = peak + log_total
    return (log_total[..., 0] - pick(shifted, t)).sum() / count, lse


def d_cross_entropy(
    dloss: Array, z: Array, t: Array, lse: Array, count: float, B: int, S: int, V: int
) -> Array:
    """Gradient of cross_entropy: dZ = (softmax(Z) - onehot(t)) w / Σ w · dloss."""
    p = np.exp(z - lse)
    part = dloss / count
    return p * part - place(np.broadcast_to(part, (B, S)), t, V)


def pick(x: Array, ids: Array) -> Array:
    """One element per row of the last axis."""
    return np.take_along_axis(x, ids[..., None], axis=-1)[..., 0]


def place(values: Array, ids: Array, length: int) -> Array:
    """Zeros with one value per row of a new last axis, at its id."""
    rows = np.zeros((*ids.shape, length), values.dtype)
    np.put_along_axis(rows, ids[..., None], values[..., None], axis=-1)
    return rows


def scatter_add(updates: Array, ids: Array, rows: int) -> Array:
    """Rows summed by their ids: the gradient of a table that was read by them."""
    flat = ids.reshape(-1)
    order = np.argsort(flat, kind="stable")
    present, starts = np.unique(flat[order], return_index=True)
    table = np.zeros((rows, *updates.shape[ids.ndim :]), updates.dtype)
    if flat.size:
        values = updates.reshape(flat.size, *updates.shape[ids.ndim :])
        table[present] = np.add.reduceat(values[order], starts, axis=0)
    return table


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
