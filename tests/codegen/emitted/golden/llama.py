"""Llama: forward and backward pass in NumPy.

Compiled by xg 0.2.0 from llama.xg, block Llama. Change the diagram, not this file.

    forward(ids [B, S] in V, t [B, S] in V) -> Z [B, S, V], loss []
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Params = dict[str, Array]
DType = Any
ParamTable = dict[str, tuple[tuple[int, ...], float | str]]

D = 4096
D_ff = 11008
N_H = 32
N_KV = 8
N_L = 32
V = 32000


def gqa(params: Params, at: str, X: Array) -> tuple[Array, GQASaved]:
    """Grouped-Query Attention: block GQA.

    X [B, S, D] -> Y [B, S, D]
    """
    W_Q = params[f"{at}.W_Q"]  # [D, D]
    W_K = params[f"{at}.W_K"]  # [D, N_KV*D_h]
    W_V = params[f"{at}.W_V"]  # [D, N_KV*D_h]
    W_O = params[f"{at}.W_O"]  # [D, D]
    B, S, D = X.shape
    D_h = D // N_H
    # X -> •<=W_Q -> ⊕<-BC(b_Q) if bias = QKV | QKVO -> R -> RMS(g_Q, eps) if norm =
    #       QK
    # -> RoPE(base) if turns = plain
    Q = rope(  # [B, N_H, S, D_h]
        (X @ W_Q).reshape(B, S, N_H, D_h).swapaxes(1, 2), D_h, S
    )
    # X -> •<=W_K -> ⊕<-BC(b_K) if bias = QKV | QKVO -> R -> RMS(g_K, eps) if norm =
    #       QK
    K = rope(  # [B, N_KV, S, D_h]
        (X @ W_K).reshape(B, S, N_KV, D_h).swapaxes(1, 2), D_h, S
    )
    # X -> •<=W_V -> ⊕<-BC(b_V) if bias = QKV | QKVO -> R : V [B, N_KV, S, D_h]
    V = (X @ W_V).reshape(B, S, N_KV, D_h).swapaxes(1, 2)  # [B, N_KV, S, D_h]
    # K -> BC[b, n, s, d -> b, (n, g=N_H/N_KV), s, d] -> T : KT [B, N_H, D_h, S]
    broadcast_part = np.broadcast_to(K[:, :, None], (B, N_KV, N_H // N_KV, S, D_h))
    KT = broadcast_part.reshape(B, N_H, S, D_h).swapaxes(-1, -2)  # [B, N_H, D_h, S]
    # V -> BC[b, n, s, d -> b, (n, g=N_H/N_KV), s, d] : VG [B, N_H, S, D_h]
    broadcast_part_2 = np.broadcast_to(V[:, :, None], (B, N_KV, N_H // N_KV, S, D_h))
    VG = broadcast_part_2.reshape(B, N_H, S, D_h)  # [B, N_H, S, D_h]
    # Q -> •<=KT -> SM(1/sqrt(D_h), causal) if turns = plain | slowed
    # -> SM(a^2/sqrt(D_h), causal) if turns = yarn -> Near(S_w) if window = near -> S
    #       : P [B, N_H, S, S]
    P = softmax(scale_mask(Q @ KT, 1 / D_h**0.5, S))  # [B, N_H, S, S]
    # -> •<=VG -> R : O [B, S, N_H*D_h]
    O = (P @ VG).swapaxes(1, 2).reshape(B, S, D)  # [B, S, D]
    # -> •<=W_O -> ⊕<-BC(b_O) if bias = QKVO : Y
    Y = O @ W_O  # [B, S, D]
    return Y, GQASaved(X, Q, KT, VG, P, O)


def d_gqa(params: Params, at: str, saved: GQASaved, dY: Array, grads: Params) -> Array:
    """Backward pass of `gqa`.

    dY [B, S, D] -> dX [B, S, D], gradients of parameters in `grads`
    """
    W_Q = params[f"{at}.W_Q"]  # [D, D]
    W_K = params[f"{at}.W_K"]  # [D, N_KV*D_h]
    W_V = params[f"{at}.W_V"]  # [D, N_KV*D_h]
    W_O = params[f"{at}.W_O"]  # [D, D]
    B, S, D = saved.X.shape
    N_H = saved.Q.shape[1]
    D_h = saved.Q.shape[3]
    # backward of -> •<=W_O -> ⊕<-BC(b_O) if bias = QKVO : Y
    dO = dY @ W_O.T  # [B, S, D], grad of matmul
    dW_O = saved.O.reshape(-1, D).T @ dY.reshape(-1, D)  # [D, D], grad of matmul
    # backward of -> •<=VG -> R : O [B, S, N_H*D_h]
    d_R_O = (  # [B, N_H, S, D_h], grad of reshape
        dO.reshape(B, S, N_H, D_h).swapaxes(1, 2)
    )
    dP = d_R_O @ saved.VG.swapaxes(-1, -2)  # [B, N_H, S, S], grad of matmul
    dVG = saved.P.swapaxes(-1, -2) @ d_R_O  # [B, N_H, S, D_h], grad of matmul
    # backward of -> SM(a^2/sqrt(D_h), causal) if turns = yarn -> Near(S_w) if window
    #       = near -> S : P [B, N_H, S, S]
    d_S = d_softmax(dP, saved.P)  # [B, N_H, S, S], grad of softmax
    # backward of Q -> •<=KT -> SM(1/sqrt(D_h), causal) if turns = plain | slowed
    d_SM = d_scale_mask(d_S, 1 / D_h**0.5, S)  # [B, N_H, S, S], grad of scale_mask
    dQ = d_SM @ saved.KT.swapaxes(-1, -2)  # [B, N_H, S, D_h], grad of matmul
    dKT = saved.Q.swapaxes(-1, -2) @ d_SM  # [B, N_H, D_h, S], grad of matmul
    # backward of V -> BC[b, n, s, d -> b, (n, g=N_H/N_KV), s, d] : VG
    #       [B, N_H, S, D_h]
    dV = (  # [B, N_KV, S, D_h], grad of broadcast
        dVG.reshape(B, N_KV, N_H // N_KV, S, D_h).sum(axis=2)
    )
    # backward of K -> BC[b, n, s, d -> b, (n, g=N_H/N_KV), s, d] -> T : KT
    #       [B, N_H, D_h, S]
    d_BC = (  # [B, N_KV, N_H/N_KV, S, D_h], grad of transpose, broadcast
        dKT.swapaxes(-1, -2).reshape(B, N_KV, N_H // N_KV, S, D_h)
    )
    dK = d_BC.sum(axis=2)  # [B, N_KV, S, D_h], grad of broadcast
    # backward of X -> •<=W_V -> ⊕<-BC(b_V) if bias = QKV | QKVO -> R : V
    #       [B, N_KV, S, D_h]
    d_R_V = (  # [B, S, N_KV*D_h], grad of reshape
        dV.swapaxes(1, 2).reshape(B, S, N_KV * D // N_H)
    )
    dW_V = (  # [D, N_KV*D_h], grad of matmul
        saved.X.reshape(-1, D).T @ d_R_V.reshape(-1, N_KV * D // N_H)
    )
    # backward of -> RoPE(base) if turns = plain
    d_RoPE_K = d_rope(dK, D_h, S)  # [B, N_KV, S, D_h], grad of rope
    # backward of X -> •<=W_K -> ⊕<-BC(b_K) if bias = QKV | QKVO -> R -> RMS(g_K, eps)
    #       if norm = QK
    d_R_2 = (  # [B, S, N_KV*D_h], grad of reshape
        d_RoPE_K.swapaxes(1, 2).reshape(B, S, N_KV * D // N_H)
    )
    dW_K = (  # [D, N_KV*D_h], grad of matmul
        saved.X.reshape(-1, D).T @ d_R_2.reshape(-1, N_KV * D // N_H)
    )
    # backward of -> RoPE(base) if turns = plain
    d_RoPE_Q = d_rope(dQ, D_h, S)  # [B, N_H, S, D_h], grad of rope
    # backward of X -> •<=W_Q -> ⊕<-BC(b_Q) if bias = QKV | QKVO -> R -> RMS(g_Q, eps)
    #       if norm = QK
    d_R = d_RoPE_Q.swapaxes(1, 2).reshape(B, S, D)  # [B, S, D], grad of reshape
    dW_Q = saved.X.reshape(-1, D).T @ d_R.reshape(-1, D)  # [D, D], grad of matmul
    # backward of X -> •<=W_V -> ⊕<-BC(b_V) if bias = QKV | QKVO -> R : V
    #       [B, N_KV, S, D_h]
    # backward of X -> •<=W_K -> ⊕<-BC(b_K) if bias = QKV | QKVO -> R -> RMS(g_K, eps)
    #       if norm = QK
    dX = (  # [B, S, D], grad of matmul, sum over uses
        d_R_V @ W_V.T + d_R_2 @ W_K.T + d_R @ W_Q.T
    )
    grads |= {
        f"{at}.W_Q": dW_Q,
        f"{at}.W_K": dW_K,
        f"{at}.W_V": dW_V,
        f"{at}.W_O": dW_O,
    }
    return dX


def layer(params: Params, at: str, X: Array) -> tuple[Array, LayerSaved]:
    """Block Layer.

    X [B, S, D] -> Y [B, S, D]
    """
    g_1 = params[f"{at}.g_1"]  # [D]
    g_2 = params[f"{at}.g_2"]  # [D]
    W_gate = params[f"{at}.W_gate"]  # [D, D_ff]
    W_up = params[f"{at}.W_up"]  # [D, D_ff]
    W_down = params[f"{at}.W_down"]  # [D_ff, D]
    # X -> RMS(g_1, eps) : N [B, S, D]
    N = rms(X, g_1, 1e-06)  # [B, S, D]
    # -> GQA(base, eps, factor, low, high, trained, slow, fast, a) as attn -> ⊕<-X : M
    #       [B, S, D]
    attn_out, attn_saved = gqa(params, f"{at}.attn", N)  # [B, S, D]
    M = attn_out + X  # [B, S, D]
    # -> RMS(g_2, eps) : H [B, S, D]
    H = rms(M, g_2, 1e-06)  # [B, S, D]
    # -> •<=W_gate -> SwiGLU<-(H -> •<=W_up) : U [B, S, D_ff]
    matmul = H @ W_gate  # [B, S, D_ff]
    matmul_2 = H @ W_up  # [B, S, D_ff]
    U = swiglu(matmul, matmul_2)  # [B, S, D_ff]
    # -> •<=W_down -> ⊕<-M : Y
    Y = U @ W_down + M  # [B, S, D]
    return Y, LayerSaved(X, attn_saved, M, H, matmul, matmul_2, U)


def d_layer(
    params: Params, at: str, saved: LayerSaved, dY: Array, grads: Params
) -> Array:
    """Backward pass of `layer`.

    dY [B, S, D] -> dX [B, S, D], gradients of parameters in `grads`
    """
    g_1 = params[f"{at}.g_1"]  # [D]
    g_2 = params[f"{at}.g_2"]  # [D]
    W_gate = params[f"{at}.W_gate"]  # [D, D_ff]
    W_up = params[f"{at}.W_up"]  # [D, D_ff]
    W_down = params[f"{at}.W_down"]  # [D_ff, D]
    B, S, D = saved.X.shape
    D_ff = saved.matmul.shape[2]
    # backward of -> •<=W_down -> ⊕<-M : Y
    dU = dY @ W_down.T  # [B, S, D_ff], grad of matmul
    dW_down = (  # [D_ff, D], grad of matmul
        saved.U.reshape(-1, D_ff).T @ dY.reshape(-1, D)
    )
    # backward of -> •<=W_gate -> SwiGLU<-(H -> •<=W_up) : U [B, S, D_ff]
    d_SwiGLU_g, d_SwiGLU_u = d_swiglu(  # [B, S, D_ff], grad of swiglu
        dU, saved.matmul, saved.matmul_2
    )
    dW_up = (  # [D, D_ff], grad of matmul
        saved.H.reshape(-1, D).T @ d_SwiGLU_u.reshape(-1, D_ff)
    )
    dW_gate = (  # [D, D_ff], grad of matmul
        saved.H.reshape(-1, D).T @ d_SwiGLU_g.reshape(-1, D_ff)
    )
    dH = (  # [B, S, D], grad of matmul, sum over uses
        d_SwiGLU_u @ W_up.T + d_SwiGLU_g @ W_gate.T
    )
    # backward of -> RMS(g_2, eps) : H [B, S, D]
    dM_RMS, dg_2 = d_rms(dH, saved.M, g_2, 1e-06, B, S, D)  # [B, S, D], grad of RMS
    dM = dY + dM_RMS  # [B, S, D], sum over uses
    # backward of -> GQA(base, eps, factor, low, high, trained, slow, fast, a) as attn
    #       -> ⊕<-X : M [B, S, D]
    dN = d_gqa(params, f"{at}.attn", saved.attn, dM, grads)  # [B, S, D], grad of GQA
    # backward of X -> RMS(g_1, eps) : N [B, S, D]
    dX_RMS, dg_1 = d_rms(dN, saved.X, g_1, 1e-06, B, S, D)  # [B, S, D], grad of RMS
    dX = dM + dX_RMS  # [B, S, D], sum over uses
    grads |= {
        f"{at}.g_1": dg_1,
        f"{at}.g_2": dg_2,
        f"{at}.W_gate": dW_gate,
        f"{at}.W_up": dW_up,
        f"{at}.W_down": dW_down,
    }
    return dX


def llama(params: Params, ids: Array, t: Array) -> tuple[Array, Array, LlamaSaved]:
    """Block Llama.

    ids [B, S], t [B, S] -> Z [B, S, V], loss []
    """
    E = params["E"]  # [V, D]
    g = params["g"]  # [D]
    W_lm = params["W_lm"]  # [D, V]
    B, S = ids.shape
    # ids -> Emb(E) -> N_L × Layer(base, eps, factor, low, high, trained, slow, fast,
    #       a) as layers -> RMS(g, eps) : Y [B, S, D]
    embedding = E[ids]  # [B, S, D]
    layers_out = embedding
    layers_saved: list[LayerSaved] = []
    for i in range(N_L):
        layers_out, layer_saved = layer(params, f"layers.{i}", layers_out)  # [B, S, D]
        layers_saved.append(layer_saved)
    Y = rms(layers_out, g, 1e-06)  # [B, S, D]
    # -> •<=W_lm if head = own -> •<=T(E) if head = tied : Z
    Z = Y @ W_lm  # [B, S, V]
    # -> CE<-t : loss
    loss, loss_lse = cross_entropy(Z, t, B * S)  # []
    return Z, loss, LlamaSaved(ids, t, layers_out, layers_saved, Y, Z, loss_lse)


def d_llama(
    params: Params, saved: LlamaSaved, dZ: Array, dloss: Array, grads: Params
) -> None:
    """Backward pass of `llama`.

    dZ [B, S, V], dloss [] -> gradients of parameters in `grads`
    """
    g = params["g"]  # [D]
    W_lm = params["W_lm"]  # [D, V]
    B, S = saved.ids.shape
    D = saved.layers_out.shape[2]
    V = saved.Z.shape[2]
    # backward of -> CE<-t : loss
    dZ_CE = d_cross_entropy(  # [B, S, V], grad of cross_entropy
        dloss, saved.Z, saved.t, saved.loss_lse, B * S, B, S, V
    )
    dZ = dZ + dZ_CE  # [B, S, V], sum over uses
    # backward of -> •<=W_lm if head = own -> •<=T(E) if head = tied : Z
    dY = dZ @ W_lm.T  # [B, S, D], grad of matmul
    dW_lm = saved.Y.reshape(-1, D).T @ dZ.reshape(-1, V)  # [D, V], grad of matmul
    # backward of ids -> Emb(E) -> N_L × Layer(base, eps, factor, low, high, trained,
    #       slow, fast, a) as layers -> RMS(g, eps) : Y [B, S, D]
    d_RMS, dg = d_rms(dY, saved.layers_out, g, 1e-06, B, S, D)  # [B, S, D], grad of RMS
    d_layers = d_RMS
    for i in reversed(range(len(saved.layers))):
        d_layers = d_layer(  # [B, S, D], grad of Layer
            params, f"layers.{i}", saved.layers[i], d_layers, grads
        )
    dE = _scatter_add(d_layers, saved.ids, V)  # [V, D], grad of embedding
    grads |= {
        "E": dE,
        "g": dg,
        "W_lm": dW_lm,
    }


# ---- saved values --------------------------------------------------------------------


class GQASaved(NamedTuple):
    """Values of `gqa` that `d_gqa` needs."""

    X: Array  # [B, S, D]
    Q: Array  # [B, N_H, S, D_h]
    KT: Array  # [B, N_H, D_h, S]
    VG: Array  # [B, N_H, S, D_h]
    P: Array  # [B, N_H, S, S]
    O: Array  # [B, S, D]


class LayerSaved(NamedTuple):
    """Values of `layer` that `d_layer` needs."""

    X: Array  # [B, S, D]
    attn: GQASaved
    M: Array  # [B, S, D]
    H: Array  # [B, S, D]
    matmul: Array  # [B, S, D_ff]
    matmul_2: Array  # [B, S, D_ff]
    U: Array  # [B, S, D_ff]


class LlamaSaved(NamedTuple):
    """Values of `llama` that `d_llama` needs."""

    ids: Array  # [B, S]
    t: Array  # [B, S]
    layers_out: Array  # [B, S, D]
    layers: list[LayerSaved]
    Y: Array  # [B, S, D]
    Z: Array  # [B, S, V]
    loss_lse: Array  # [B, S, 1]


# ---- public interface ----------------------------------------------------------------


def _in_float32(compute: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate a pass, so that it computes half types in float32, then rounds.

    NumPy adds float16 numbers in float16, where 2048 + 1 is 2048.
    """

    @wraps(compute)
    def wide(*given: Any, **words: Any) -> Any:
        kinds = [kind for arrays in given for kind in _float_types(arrays)]
        single = np.dtype(np.float32)
        half = kinds[0] if kinds else single
        if half.itemsize != 2 or kinds != [half] * len(kinds):
            return compute(*given, **words)
        results = compute(*[_converted(each, half, single) for each in given], **words)
        if isinstance(results, dict):
            return _converted(results, single, half)
        return tuple([_converted(each, single, half) for each in results])

    return wide


def init(seed: int = 0, dtype: DType = np.float32, *, V: int = V, D: int = D) -> Params:
    """Make the parameters, by their names in the diagram, drawn from the seed."""
    if D % (2 * N_H):
        raise ValueError(f"D_h/2 = {D}/{2 * N_H} is not a whole number")
    _check_float(dtype)
    params: Params = {}
    table = _param_table(V=V, D=D, N_L=N_L, D_ff=D_ff, N_H=N_H, N_KV=N_KV)
    for name, (shape, start) in table.items():
        if start == "ones":
            params[name] = np.ones(shape, dtype)
        else:
            params[name] = _normal(seed, name, shape, float(start)).astype(dtype)
    return params


@_in_float32
def forward(
    params: Params, inputs: Mapping[str, Array], *, seed: int | None = None
) -> tuple[dict[str, Array], LlamaSaved]:
    """Outputs by name, and the values that `backward` needs.

    The seed is not used.
    """
    _check("inputs", inputs, {"ids": 2}, params, "t")
    B, S = inputs["ids"].shape
    V, D = _array(params, "E", 2).shape
    table = _param_table(V=V, D=D, N_L=N_L, D_ff=D_ff, N_H=N_H, N_KV=N_KV)
    shapes = {name: shape for name, (shape, _) in table.items()}
    _check("params", params, shapes, inputs)
    _check("inputs", inputs, {"ids": (B, S), "t": (B, S)}, {})
    _check_floats(params, inputs)
    inputs = dict(inputs)
    inputs["ids"] = _integers(inputs["ids"], "ids", V)
    inputs["t"] = _integers(inputs["t"], "t", V)
    if S < 1:
        raise ValueError(f"S = {S}: S (softmax) needs at least one position")
    if D % (2 * N_H):
        raise ValueError(f"D_h/2 = {D}/{2 * N_H} is not a whole number")
    Z, loss, saved = llama(params, inputs["ids"], inputs["t"])
    return {"Z": Z, "loss": loss}, saved


@_in_float32
def backward(
    params: Params, saved: LlamaSaved, d_outputs: Mapping[str, Array]
) -> Params:
    """Gradients of all parameters and float inputs by name; no cotangent means zero."""
    if not hasattr(saved, "ids"):
        raise TypeError("saved should be the second result of forward, not its first")
    B, S = saved.ids.shape
    V = saved.Z.shape[2]
    _check("d_outputs", d_outputs, {"Z": (B, S, V), "loss": ()}, params)
    dtype = next(iter({**params, **d_outputs}.values())).dtype
    dZ = d_outputs.get("Z")
    if dZ is None:
        dZ = np.zeros((B, S, V), dtype)
    dloss = d_outputs.get("loss")
    if dloss is None:
        dloss = np.zeros((), dtype)
    grads: Params = {}
    d_llama(params, saved, dZ, dloss, grads)
    return grads


# ---- operators -----------------------------------------------------------------------


def rope(x: Array, D_h: int, S: int) -> Array:
    """Turns pairs of columns by their position s.

    (y_a, y_b) = (x_a cos φ - x_b sin φ, x_b cos φ + x_a sin φ), φ = s / base^(2i/D_h);
    pair i is columns i and i + D_h/2.
    """
    a = x[..., : D_h // 2]
    speed = np.exp(np.arange(D_h // 2) * (-18.420680743952367 / D_h))
    angle = np.arange(S)[..., None] * speed
    c = np.cos(angle).astype(x.dtype)
    b = x[..., D_h // 2 :]
    s = np.sin(angle).astype(x.dtype)
    turned_a = a * c - b * s
    turned_b = b * c + a * s
    return np.concatenate([turned_a, turned_b], axis=-1)


def scale_mask(a: Array, scale: float, S: int) -> Array:
    """z_ij = α a_ij if j <= i + S_k - S, else -inf."""
    visible = np.arange(S)[..., None] >= np.arange(S)
    return np.where(visible, a * scale, -np.inf)


def softmax(z: Array) -> Array:
    """p_i = exp(z_i) / Σ_j exp(z_j)."""
    peak = z.max(axis=-1, keepdims=True)
    e = np.exp(z - np.where(peak > -np.inf, peak, 0))
    total = e.sum(axis=-1, keepdims=True)
    return e / np.where(total == 0, 1, total)


def d_softmax(dp: Array, p: Array) -> Array:
    """Gradient of softmax: dZ = (dP - Σ dP ⊙ P) ⊙ P, Σ over the last axis."""
    return (dp - (dp * p).sum(axis=-1, keepdims=True)) * p


def d_scale_mask(dz: Array, scale: float, S: int) -> Array:
    """Gradient of scale_mask: da_ij = α dz_ij if j <= i + S_k - S, else 0."""
    visible = np.arange(S)[..., None] >= np.arange(S)
    return np.where(visible, dz * scale, 0)


def d_rope(dy: Array, D_h: int, S: int) -> Array:
    """Gradient of rope: dX = dY turned back by φ."""
    a = dy[..., : D_h // 2]
    speed = np.exp(np.arange(D_h // 2) * (-18.420680743952367 / D_h))
    angle = np.arange(S)[..., None] * speed
    c = np.cos(angle).astype(dy.dtype)
    b = dy[..., D_h // 2 :]
    s = (-np.sin(angle)).astype(dy.dtype)
    turned_a = a * c - b * s
    turned_b = b * c + a * s
    return np.concatenate([turned_a, turned_b], axis=-1)


def rms(x: Array, g: Array, eps: float) -> Array:
    """op RMS(x [.., D]; g [D], eps = 1e-6) = x / sqrt(mean[D](x^2) + eps) * g."""
    return x / np.sqrt((x**2).mean(axis=-1, keepdims=True) + eps) * g


def swiglu(g: Array, u: Array) -> Array:
    """U times the SiLU of the gate g: Y = G ⊙ σ(G) ⊙ U, σ the sigmoid."""
    positive = g >= 0
    e = np.exp(np.where(positive, -g, g))
    return g * (np.where(positive, 1, e) / (1 + e)) * u


def d_swiglu(dy: Array, g: Array, u: Array) -> tuple[Array, Array]:
    """dG = dY ⊙ U ⊙ σ(G) ⊙ (1 + G ⊙ (1 - σ(G))), dU = dY ⊙ G ⊙ σ(G)."""
    positive = g >= 0
    e = np.exp(np.where(positive, -g, g))
    s = np.where(positive, 1, e) / (1 + e)
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
    """loss = Σ (log Σ_j exp(z_j) - z_t) / count."""
    peak = z.max(axis=-1, keepdims=True)
    shifted = z - peak
    log_total = np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
    lse = peak + log_total
    return (log_total[..., 0] - _pick(shifted, t)).sum() / count, lse


def d_cross_entropy(
    dloss: Array, z: Array, t: Array, lse: Array, count: float, B: int, S: int, V: int
) -> Array:
    """Gradient of cross_entropy: dZ = (softmax(Z) - onehot(t)) / count · dloss."""
    p = np.exp(z - lse)
    part = dloss / count
    return p * part - _place(np.broadcast_to(part, (B, S)), t, V)


# ---- support -------------------------------------------------------------------------


def _param_table(
    *, V: int, D: int, N_L: int, D_ff: int, N_H: int, N_KV: int
) -> ParamTable:
    """Shape and start of every parameter: ones, zeros or a standard deviation."""
    _refuse_empty(V=V, D=D, D_ff=D_ff, N_KV=N_KV)
    table: ParamTable = {
        "E": ((V, D), D**-0.5),
        "g": ((D,), "ones"),
        "W_lm": ((D, V), D**-0.5),
    }
    for i in range(N_L):
        table |= {
            f"layers.{i}.g_1": ((D,), "ones"),
            f"layers.{i}.g_2": ((D,), "ones"),
            f"layers.{i}.W_gate": ((D, D_ff), D**-0.5),
            f"layers.{i}.W_up": ((D, D_ff), D**-0.5),
            f"layers.{i}.W_down": ((D_ff, D), D_ff**-0.5),
            f"layers.{i}.attn.W_Q": ((D, D), D**-0.5),
            f"layers.{i}.attn.W_K": ((D, N_KV * D // N_H), D**-0.5),
            f"layers.{i}.attn.W_V": ((D, N_KV * D // N_H), D**-0.5),
            f"layers.{i}.attn.W_O": ((D, D), D**-0.5),
        }
    return table


def _check(
    what: str,
    arrays: Any,
    shapes: Mapping[str, tuple[int, ...] | int],
    others: Any,
    *more: str,
) -> None:
    """Raise an error if arrays have other names, shapes, or numbers of axes."""
    for argument, given in ((what, arrays), ("params", others)):
        if not isinstance(given, Mapping):
            raise TypeError(f"{argument} should be a dict: arrays by their names")
    known = [*shapes, *more]
    if what == "inputs" and [name for name in known if name in others]:
        raise ValueError("params and inputs are swapped: params come first")
    names = set(known)
    for name in [name for name in arrays if name not in names]:
        said = ", ".join(known[:9]) + (", …" if len(known) > 9 else "")
        raise ValueError(f"there is no {name}, but {said}")
    d = "d" if what == "d_outputs" else ""
    for name in [name for name in shapes if not d or name in arrays]:
        shape = shapes[name]
        wanted = "" if isinstance(shape, int) else f" {list(shape)}"
        if name not in arrays:
            raise ValueError(f"{name}{wanted} is missing")
        if not hasattr(arrays[name], "shape"):
            wrong = "should be an array: lists and numbers have no shape"
            raise TypeError(f"{d}{name} {wrong}")
        found = tuple(arrays[name].shape)
        if what == "inputs" and "complex" in str(arrays[name].dtype):
            wrong = f"should have real numbers, not {arrays[name].dtype}"
            raise TypeError(f"{name} {wrong}")
        if isinstance(shape, int) and len(found) != shape:
            wrong = f"should have {shape} axes, not shape {list(found)}"
            raise ValueError(f"{name} {wrong}")
        if not isinstance(shape, int) and found != shape:
            beside = {key: x for key, x in others.items() if hasattr(x, "shape")}
            for key, array in beside.items():
                for read, size in zip(shape, found, strict=False):
                    if read in array.shape and read not in found:
                        wrong = f"{key} {list(array.shape)} does not fit the parameters"
                        held = f"as in {name} {list(found)}"
                        raise ValueError(f"{wrong}: {read} should be {size}, {held}")
            raise ValueError(f"{d}{name} should have shape{wanted}, not {list(found)}")


def _refuse_empty(**sizes: int) -> None:
    """Raise ValueError for a size of parameters that is less than 1."""
    for name, size in sizes.items():
        if size < 1:
            raise ValueError(f"{name} = {size}: a parameter needs at least one element")


def _array(arrays: Mapping[str, Array], name: str, axes: int) -> Array:
    """Get an array by its name; raise ValueError if it has another number of axes."""
    given = {key: array for key, array in arrays.items() if key == name}
    _check("arrays", given, {name: axes}, {})
    return arrays[name]


def _integers(ids: Array, name: str, below: int | None, *left_out: int) -> Array:
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


def _float_types(arrays: Any) -> list[DType]:
    """The types of all floats among arrays by their names."""
    each = arrays.values() if isinstance(arrays, dict) else []
    kinds = [x.dtype for x in each if isinstance(x, np.ndarray | np.generic)]
    return [kind for kind in kinds if kind.kind not in "iub"]


def _converted(arrays: Any, kind: DType, to: DType) -> Any:
    """Arrays by their names, those of one type in another; anything else as it is."""
    if not isinstance(arrays, dict):
        return arrays
    return {n: x.astype(to) if _has_type(x, kind) else x for n, x in arrays.items()}


def _has_type(x: Any, kind: DType) -> bool:
    """Whether it is an array or a number of a type."""
    return isinstance(x, np.ndarray | np.generic) and x.dtype == kind


def _check_floats(
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


def _pick(x: Array, ids: Array) -> Array:
    """One element per row of the last axis."""
    return np.take_along_axis(x, ids[..., None], axis=-1)[..., 0]


def _place(values: Array, ids: Array, length: int) -> Array:
    """Zeros with one value per row of a new last axis, at its id."""
    rows = np.zeros((*ids.shape, length), values.dtype)
    np.put_along_axis(rows, ids[..., None], values[..., None], axis=-1)
    return rows


def _scatter_add(updates: Array, ids: Array, rows: int) -> Array:
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


def _check_float(dtype: DType) -> None:
    """Raise TypeError for another type than one of floats."""
    if np.dtype(dtype).kind not in "fV":
        raise TypeError(f"dtype should be a type of floats, not {np.dtype(dtype)}")


def _normal(seed: int, place: str, shape: tuple[int, ...], deviation: float) -> Array:
    """Nearly normal numbers, from integers alone: sums of four uniforms of 16 bits."""
    drawn = _random_words(_random_key(seed, place), int(np.prod(shape)))
    centred = np.full(drawn.shape, -2 * 65535, np.int64)
    for lane in range(4):
        centred += (drawn >> np.uint64(16 * lane) & np.uint64(65535)).astype(np.int64)
    return (centred * (deviation / ((65536**2 - 1) / 3) ** 0.5)).reshape(shape)


def _random_key(seed: int, place: str) -> int:
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


def _random_words(key: int, count: int) -> NDArray[np.uint64]:
    """Random 64-bit words (SplitMix64): word i depends on the key and i alone."""
    return _words_at(key, np.arange(count, dtype=np.uint64))


def _words_at(key: int, index: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The random words of some elements, by their places in the whole."""
    z = (index + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    z += np.uint64(key)
    z = (z ^ z >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ z >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
    return z ^ z >> np.uint64(31)
