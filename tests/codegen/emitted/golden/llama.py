"""Llama: forward and backward pass in NumPy.

Compiled by xg from llama.xg, block Llama. Change the diagram, not this file.

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

D = 4096
D_ff = 11008
N_H = 32
N_KV = 8
N_L = 32
V = 32000


class GQASaved(NamedTuple):
    """What `gqa` keeps for its backward pass."""

    X: Array  # [B, S, D]
    Q: Array  # [B, N_H, S, D_h]
    KT: Array  # [B, N_H, D_h, S]
    VG: Array  # [B, N_H, S, D_h]
    P: Array  # [B, N_H, S, S]
    O: Array  # [B, S, D]


def gqa(params: Params, at: str, X: Array) -> tuple[Array, GQASaved]:
    """Grouped-Query Attention (llama.xg, line 8).

    X [B, S, D] -> Y [B, S, D]
    """
    W_Q, W_K, W_V, W_O = take(params, at, "W_Q W_K W_V W_O")
    B, S, D = X.shape
    D_h = D // N_H
    Q_1 = (X @ W_Q).reshape(B, S, N_H, D_h).swapaxes(1, 2)  # [B, N_H, S, D_h], line 11
    Q = rope(Q_1, D, N_H, S, D_h)  # [B, N_H, S, D_h], line 11
    # [B, N_KV, S, D_h], line 12
    K_1 = (X @ W_K).reshape(B, S, N_KV, D_h).swapaxes(1, 2)
    K = rope(K_1, D, N_H, S, D_h)  # [B, N_KV, S, D_h], line 12
    V = (X @ W_V).reshape(B, S, N_KV, D_h).swapaxes(1, 2)  # [B, N_KV, S, D_h], line 13
    KT_1 = np.broadcast_to(K[:, :, None], (B, N_KV, N_H // N_KV, S, D_h))
    KT = KT_1.reshape(B, N_H, S, D_h).swapaxes(-1, -2)  # [B, N_H, D_h, S], line 15
    VG_1 = np.broadcast_to(V[:, :, None], (B, N_KV, N_H // N_KV, S, D_h))
    VG = VG_1.reshape(B, N_H, S, D_h)  # [B, N_H, S, D_h], line 16
    P = softmax(scale_mask(Q @ KT, 1 / D_h**0.5, S))  # [B, N_H, S, S], line 18
    O = (P @ VG).swapaxes(1, 2).reshape(B, S, D)  # [B, S, D], line 19
    Y = O @ W_O  # [B, S, D], line 20
    return Y, GQASaved(X, Q, KT, VG, P, O)


def d_gqa(params: Params, at: str, saved: GQASaved, dY: Array, grads: Params) -> Array:
    """Backward pass of Grouped-Query Attention (llama.xg, line 8)."""
    W_Q, W_K, W_V, W_O = take(params, at, "W_Q W_K W_V W_O")
    B, S, D = saved.X.shape
    N_H = saved.Q.shape[1]
    D_h = saved.Q.shape[3]
    dO = dY @ W_O.T  # [B, S, D], d• of line 20
    dW_O = saved.O.reshape(-1, D).T @ dY.reshape(-1, D)  # [D, D], d• of line 20
    dO_1 = dO.reshape(B, S, N_H, D_h).swapaxes(1, 2)  # [B, N_H, S, D_h], dR of line 19
    dP = dO_1 @ saved.VG.swapaxes(-1, -2)  # [B, N_H, S, S], d• of line 19
    dVG = saved.P.swapaxes(-1, -2) @ dO_1  # [B, N_H, S, D_h], d• of line 19
    dP_1 = d_softmax(dP, saved.P)  # [B, N_H, S, S], dS of line 18
    dP_2 = d_scale_mask(dP_1, 1 / D_h**0.5, S)  # [B, N_H, S, S], dSM of line 18
    dQ = dP_2 @ saved.KT.swapaxes(-1, -2)  # [B, N_H, S, D_h], d• of line 18
    dKT = saved.Q.swapaxes(-1, -2) @ dP_2  # [B, N_H, D_h, S], d• of line 18
    # [B, N_KV, S, D_h], dBC of line 16
    dV = dVG.reshape(B, N_KV, N_H // N_KV, S, D_h).sum(axis=2)
    # [B, N_KV, N_H/N_KV, S, D_h], dT, dBC of line 15
    part = dKT.swapaxes(-1, -2).reshape(B, N_KV, N_H // N_KV, S, D_h)
    dK = part.sum(axis=2)  # [B, N_KV, S, D_h], dBC of line 15
    # [B, S, N_KV*D/N_H], dR of line 13
    dV_1 = dV.swapaxes(1, 2).reshape(B, S, N_KV * D // N_H)
    # [D, N_KV*D/N_H], d• of line 13
    dW_V = saved.X.reshape(-1, D).T @ dV_1.reshape(-1, N_KV * D // N_H)
    dK_1 = d_rope(dK, D, N_H, S, D_h)  # [B, N_KV, S, D_h], dRoPE of line 12
    # [B, S, N_KV*D/N_H], dR of line 12
    dK_2 = dK_1.swapaxes(1, 2).reshape(B, S, N_KV * D // N_H)
    # [D, N_KV*D/N_H], d• of line 12
    dW_K = saved.X.reshape(-1, D).T @ dK_2.reshape(-1, N_KV * D // N_H)
    dQ_1 = d_rope(dQ, D, N_H, S, D_h)  # [B, N_H, S, D_h], dRoPE of line 11
    dQ_2 = dQ_1.swapaxes(1, 2).reshape(B, S, D)  # [B, S, D], dR of line 11
    dW_Q = saved.X.reshape(-1, D).T @ dQ_2.reshape(-1, D)  # [D, D], d• of line 11
    # [B, S, D], d•, sum of a fan-out of lines 8-13
    dX = dV_1 @ W_V.T + dK_2 @ W_K.T + dQ_2 @ W_Q.T
    grads |= {
        f"{at}.W_Q": dW_Q,
        f"{at}.W_K": dW_K,
        f"{at}.W_V": dW_V,
        f"{at}.W_O": dW_O,
    }
    return dX


class LayerSaved(NamedTuple):
    """What `layer` keeps for its backward pass."""

    X: Array  # [B, S, D]
    attn: GQASaved
    M: Array  # [B, S, D]
    H: Array  # [B, S, D]
    U_1: Array  # [B, S, D_ff]
    U_2: Array  # [B, S, D_ff]
    U: Array  # [B, S, D_ff]


def layer(params: Params, at: str, X: Array) -> tuple[Array, LayerSaved]:
    """Layer (llama.xg, line 23).

    X [B, S, D] -> Y [B, S, D]
    """
    g_1, g_2, W_gate, W_up, W_down = take(params, at, "g_1 g_2 W_gate W_up W_down")
    M_1 = rms(X, g_1, 1e-06)  # [B, S, D], line 26
    # [B, S, D], line 26
    M_2, attn_saved = gqa(params, f"{at}.attn", M_1)
    M = M_2 + X  # [B, S, D], line 26
    H = rms(M, g_2, 1e-06)  # [B, S, D], line 27
    U_1 = H @ W_gate  # [B, S, D_ff], line 28
    U_2 = H @ W_up  # [B, S, D_ff], line 28
    U = swiglu(U_1, U_2)  # [B, S, D_ff], line 28
    Y = U @ W_down + M  # [B, S, D], line 29
    return Y, LayerSaved(X, attn_saved, M, H, U_1, U_2, U)


def d_layer(
    params: Params, at: str, saved: LayerSaved, dY: Array, grads: Params
) -> Array:
    """Backward pass of Layer (llama.xg, line 23)."""
    g_1, g_2, W_gate, W_up, W_down = take(params, at, "g_1 g_2 W_gate W_up W_down")
    B, S, D = saved.X.shape
    D_ff = saved.U_1.shape[2]
    dU = dY @ W_down.T  # [B, S, D_ff], d• of line 29
    # [D_ff, D], d• of line 29
    dW_down = saved.U.reshape(-1, D_ff).T @ dY.reshape(-1, D)
    dU_1, dU_2 = d_swiglu(dU, saved.U_1, saved.U_2)  # [B, S, D_ff], dSwiGLU of line 28
    # [D, D_ff], d• of line 28
    dW_up = saved.H.reshape(-1, D).T @ dU_2.reshape(-1, D_ff)
    # [D, D_ff], d• of line 28
    dW_gate = saved.H.reshape(-1, D).T @ dU_1.reshape(-1, D_ff)
    # [B, S, D], d•, sum of a fan-out of lines 27-28
    dH = dU_2 @ W_up.T + dU_1 @ W_gate.T
    dM_RMS, dg_2 = d_rms(dH, saved.M, g_2, 1e-06, B, S, D)  # [B, S, D], dRMS of line 27
    dM = dY + dM_RMS  # [B, S, D], sum of a fan-out of line 26
    # dGQA, line 26
    dM_1 = d_gqa(params, f"{at}.attn", saved.attn, dM, grads)
    # [B, S, D], dRMS of line 26
    dX_RMS, dg_1 = d_rms(dM_1, saved.X, g_1, 1e-06, B, S, D)
    dX = dM + dX_RMS  # [B, S, D], sum of a fan-out of line 23
    grads |= {
        f"{at}.g_1": dg_1,
        f"{at}.g_2": dg_2,
        f"{at}.W_gate": dW_gate,
        f"{at}.W_up": dW_up,
        f"{at}.W_down": dW_down,
    }
    return dX


class LlamaSaved(NamedTuple):
    """What `llama` keeps for its backward pass."""

    ids: Array  # [B, S]
    t: Array  # [B, S]
    Y_2: Array  # [B, S, D]
    layers: list[LayerSaved]
    Y: Array  # [B, S, D]
    Z: Array  # [B, S, V]
    loss_lse: Array  # [B, S, 1]


def llama(params: Params, ids: Array, t: Array) -> tuple[Array, Array, LlamaSaved]:
    """Llama (llama.xg, line 32).

    ids [B, S], t [B, S] -> Z [B, S, V], loss []
    """
    E, g, W_lm = take(params, "", "E g W_lm")
    B, S = ids.shape
    Y_1 = E[ids]  # [B, S, D], line 35
    # [B, S, D], line 35
    Y_2 = Y_1
    layers_saved: list[LayerSaved] = []
    for i in range(N_L):
        Y_2, one = layer(params, f"layers.{i}", Y_2)
        layers_saved.append(one)
    Y = rms(Y_2, g, 1e-06)  # [B, S, D], line 35
    Z = Y @ W_lm  # [B, S, V], line 36
    loss, loss_lse = cross_entropy(Z, t, B * S)  # [], line 37
    return Z, loss, LlamaSaved(ids, t, Y_2, layers_saved, Y, Z, loss_lse)


def d_llama(
    params: Params, saved: LlamaSaved, dZ: Array, dloss: Array, grads: Params
) -> None:
    """Backward pass of Llama (llama.xg, line 32)."""
    g, W_lm = take(params, "", "g W_lm")
    B, S = saved.ids.shape
    D = saved.Y_2.shape[2]
    V = saved.Z.shape[2]
    # [B, S, V], dCE of line 37
    dZ_CE = d_cross_entropy(dloss, saved.Z, saved.t, saved.loss_lse, B * S, B, S, V)
    dZ_2 = dZ + dZ_CE  # [B, S, V], sum of a fan-out of line 36
    dY = dZ_2 @ W_lm.T  # [B, S, D], d• of line 36
    dW_lm = saved.Y.reshape(-1, D).T @ dZ_2.reshape(-1, V)  # [D, V], d• of line 36
    dY_2, dg = d_rms(dY, saved.Y_2, g, 1e-06, B, S, D)  # [B, S, D], dRMS of line 35
    # dLayer, line 35
    dY_1 = dY_2
    for i, one in reversed(list(enumerate(saved.layers))):
        dY_1 = d_layer(params, f"layers.{i}", one, dY_1, grads)
    dE = scatter_add(dY_1, saved.ids, V)  # [V, D], dEmb of line 35
    grads |= {
        "E": dE,
        "g": dg,
        "W_lm": dW_lm,
    }


def table(
    *, V: int, D: int, N_L: int, D_ff: int, N_H: int, N_KV: int
) -> dict[str, tuple[tuple[int, ...], float | str]]:
    """Name, shape and start of every parameter: a word, or the deviation of a normal."""
    starts: dict[str, tuple[tuple[int, ...], float | str]] = {}
    starts |= {
        "E": ((V, D), D**-0.5),
        "g": ((D,), "ones"),
        "W_lm": ((D, V), D**-0.5),
    }
    for i in range(N_L):
        starts |= {
            f"layers.{i}.g_1": ((D,), "ones"),
            f"layers.{i}.g_2": ((D,), "ones"),
            f"layers.{i}.W_gate": ((D, D_ff), D**-0.5),
            f"layers.{i}.W_up": ((D, D_ff), D**-0.5),
            f"layers.{i}.W_down": ((D_ff, D), D_ff**-0.5),
        }
        starts |= {
            f"layers.{i}.attn.W_Q": ((D, D), D**-0.5),
            f"layers.{i}.attn.W_K": ((D, N_KV * D // N_H), D**-0.5),
            f"layers.{i}.attn.W_V": ((D, N_KV * D // N_H), D**-0.5),
            f"layers.{i}.attn.W_O": ((D, D), D**-0.5),
        }
    return starts


def init(seed: int = 0, dtype: DType = np.float32, *, V: int = V, D: int = D) -> Params:
    """Parameters by their names in the diagram, drawn from the seed."""
    params: Params = {}
    starts = table(V=V, D=D, N_L=N_L, D_ff=D_ff, N_H=N_H, N_KV=N_KV)
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
) -> tuple[dict[str, Array], LlamaSaved]:
    """Outputs by name, and what `backward` needs; without a seed dropout is off."""
    B, S = array(inputs, "ids", 2).shape
    V, D = array(params, "E", 2).shape
    starts = table(V=V, D=D, N_L=N_L, D_ff=D_ff, N_H=N_H, N_KV=N_KV)
    shapes = {name: shape for name, (shape, _) in starts.items()}
    shapes["ids"] = (B, S)
    shapes["t"] = (B, S)
    check({**inputs, **params}, shapes)
    Z, loss, saved = llama(params, inputs["ids"], inputs["t"])
    return {"Z": Z, "loss": loss}, saved


def backward(
    params: Params, saved: LlamaSaved, d_outputs: Mapping[str, Array]
) -> Params:
    """Gradients of all parameters and float inputs by name; no cotangent means zero."""
    dtype = next(iter({**params, **d_outputs}.values())).dtype
    B, S = saved.ids.shape
    V = saved.Z.shape[2]
    dZ = d_outputs.get("Z")
    if dZ is None:
        dZ = np.zeros((B, S, V), dtype)
    dloss = d_outputs.get("loss")
    if dloss is None:
        dloss = np.zeros((), dtype)
    grads: Params = {}
    d_llama(params, saved, dZ, dloss, grads)
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


def rope(x: Array, D: int, N_H: int, S: int, D_h: int) -> Array:
    """Turns pairs of columns by their position; RoPE<-range(a, b) gives other
    positions: (y_a, y_b) = (x_a cos φ - x_b sin φ, x_b cos φ + x_a sin φ), φ = s /
    base^(2i/D_h).
    """
    a = x[..., : D // (2 * N_H)]
    speed = np.exp(np.arange(D // (2 * N_H)) * (-18.420680743952367 / D_h))
    angle = np.arange(S)[..., None] * speed
    c = np.cos(angle)
    b = x[..., D // (2 * N_H) :]
    s = np.sin(angle)
    turned_a = a * c.astype(x.dtype) - b * s.astype(x.dtype)
    turned_b = b * c.astype(x.dtype) + a * s.astype(x.dtype)
    return np.concatenate([turned_a, turned_b], axis=-1)


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


def d_softmax(dp: Array, p: Array) -> Array:
    """Gradient of softmax: dZ = (dP - Σ dP ⊙ P) ⊙ P, Σ over that axis."""
    return (dp - (dp * p).sum(axis=-1, keepdims=True)) * p


def d_scale_mask(dz: Array, scale: float, S: int) -> Array:
    """Gradient of scale_mask: dA = α dZ, 0 where masked."""
    visible = np.arange(S)[..., None] >= np.arange(S)
    return np.where(visible, dz * scale, 0)


def d_rope(dy: Array, D: int, N_H: int, S: int, D_h: int) -> Array:
    """Gradient of rope: dX = dY turned back by φ."""
    a = dy[..., : D // (2 * N_H)]
    speed = np.exp(np.arange(D // (2 * N_H)) * (-18.420680743952367 / D_h))
    angle = np.arange(S)[..., None] * speed
    c = np.cos(angle)
    b = dy[..., D // (2 * N_H) :]
    s = -np.sin(angle)
    turned_a = a * c.astype(dy.dtype) - b * s.astype(dy.dtype)
    turned_b = b * c.astype(dy.dtype) + a * s.astype(dy.dtype)
    return np.concatenate([turned_a, turned_b], axis=-1)


def rms(x: Array, g: Array, eps: float) -> Array:
    """Defined in the file: op RMS(x [.., D]; g [D], eps = 1e-6) = x / sqrt(mean[D](x^2)
    + eps) * g.
    """
    return x / np.sqrt((x**2).mean(axis=-1, keepdims=True) + eps) * g


def swiglu(g: Array, u: Array) -> Array:
    """U times the SiLU of the gate g: SwiGLU<-u: Y = G ⊙ σ(G) ⊙ U, σ the sigmoid."""
    e = np.exp(np.minimum(g, -g))
    return g * (np.where(g >= 0, 1, e) / (1 + e)) * u


def d_swiglu(dy: Array, g: Array, u: Array) -> tuple[Array, Array]:
    """Gradient of swiglu: dG = dY ⊙ U ⊙ σ(G) ⊙ (1 + G ⊙ (1 - σ(G))), dU = dY ⊙ G ⊙ σ(G)."""
    e = np.exp(np.minimum(g, -g))
    s = np.where(g >= 0, 1, e) / (1 + e)
    dg = dy * u * s * (1 + g * (1 - s))
    du = dy * g * s
    return dg, du


def d_rms(
    dy: Array, x: Array, g: Array, eps: float, B: int, S: int, D: int
) -> tuple[Array, Array]:
    """Gradient of RMS: derived from the expression."""
    part = dy * g
    root = np.sqrt((x**2).mean(axis=-1, keepdims=True) + eps)
    part_2 = (-(part * x / root**2)).sum(axis=-1, keepdims=True) / (root * 2)
    dx = part / root + np.broadcast_to(part_2, (B, S, D)) / D * 2 * x
    dg = (dy * (x / root)).sum(axis=(0, 1))
    return dx, dg


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
