"""Language Model: forward and backward pass in NumPy.

Compiled by xg 0.2.0 from transformer.xg, block LM. Change the diagram, not this file.

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

D = 64
N_H = 4
N_L = 4
S_max = 512
V = 256


def attention(
    params: Params, at: str, X: Array, M: Array, *, seed: int | None
) -> tuple[Array, AttentionSaved]:
    """Multi-Head Attention: block Attention.

    X [B, S, D], M [B, S_k, D] -> Y [B, S, D]
    """
    W_Q = params[f"{at}.W_Q"]  # [D, D]
    W_K = params[f"{at}.W_K"]  # [D, D]
    W_V = params[f"{at}.W_V"]  # [D, D]
    W_O = params[f"{at}.W_O"]  # [D, D]
    b_Q = params[f"{at}.b_Q"]  # [D]
    b_K = params[f"{at}.b_K"]  # [D]
    b_V = params[f"{at}.b_V"]  # [D]
    b_O = params[f"{at}.b_O"]  # [D]
    B, S, D = X.shape
    S_k = M.shape[1]
    D_h = D // N_H
    # X -> •<=W_Q -> ⊕<-BC(b_Q) -> R -> RoPE if pos = rope : Q [B, N_H, S, D_h]
    Q = (X @ W_Q + b_Q).reshape(B, S, N_H, D_h).swapaxes(1, 2)  # [B, N_H, S, D_h]
    # M -> •<=W_K -> ⊕<-BC(b_K) -> R -> RoPE if pos = rope : K [B, N_H, S_k, D_h]
    K = (M @ W_K + b_K).reshape(B, S_k, N_H, D_h).swapaxes(1, 2)  # [B, N_H, S_k, D_h]
    # -> T : KT [B, N_H, D_h, S_k]
    KT = K.swapaxes(-1, -2)  # [B, N_H, D_h, S_k]
    # M -> •<=W_V -> ⊕<-BC(b_V) -> R : V [B, N_H, S_k, D_h]
    V = (M @ W_V + b_V).reshape(B, S_k, N_H, D_h).swapaxes(1, 2)  # [B, N_H, S_k, D_h]
    # Q -> •<=KT -> SM(1/sqrt(D_h), mask) -> S : P [B, N_H, S, S_k]
    P = softmax(scale_mask(Q @ KT, 1 / D_h**0.5, S, S_k))  # [B, N_H, S, S_k]
    # -> DO(p) : AS [B, N_H, S, S_k]
    AS, AS_keep = dropout(P, 0.1, seed, f"{at}.AS")  # [B, N_H, S, S_k]
    # -> •<=V -> R : O [B, S, D]
    O = (AS @ V).swapaxes(1, 2).reshape(B, S, D)  # [B, S, D]
    # -> •<=W_O -> ⊕<-BC(b_O) : Y
    Y = O @ W_O + b_O  # [B, S, D]
    return Y, AttentionSaved(X, M, Q, KT, V, P, AS, AS_keep, O)


def d_attention(
    params: Params, at: str, saved: AttentionSaved, dY: Array, grads: Params
) -> tuple[Array, Array]:
    """Backward pass of `attention`.

    dY [B, S, D] -> dX [B, S, D], dM [B, S_k, D], gradients of parameters in `grads`
    """
    W_Q = params[f"{at}.W_Q"]  # [D, D]
    W_K = params[f"{at}.W_K"]  # [D, D]
    W_V = params[f"{at}.W_V"]  # [D, D]
    W_O = params[f"{at}.W_O"]  # [D, D]
    B, S, D = saved.X.shape
    S_k = saved.M.shape[1]
    N_H = saved.Q.shape[1]
    D_h = saved.Q.shape[3]
    # backward of -> •<=W_O -> ⊕<-BC(b_O) : Y
    db_O = dY.sum(axis=(0, 1))  # [D], grad of broadcast
    dO = dY @ W_O.T  # [B, S, D], grad of matmul
    dW_O = saved.O.reshape(-1, D).T @ dY.reshape(-1, D)  # [D, D], grad of matmul
    # backward of -> •<=V -> R : O [B, S, D]
    d_R_O = (  # [B, N_H, S, D_h], grad of reshape
        dO.reshape(B, S, N_H, D_h).swapaxes(1, 2)
    )
    dAS = d_R_O @ saved.V.swapaxes(-1, -2)  # [B, N_H, S, S_k], grad of matmul
    dV = saved.AS.swapaxes(-1, -2) @ d_R_O  # [B, N_H, S_k, D_h], grad of matmul
    # backward of -> DO(p) : AS [B, N_H, S, S_k]
    dP = d_dropout(dAS, saved.AS_keep, 0.1)  # [B, N_H, S, S_k], grad of dropout
    # backward of Q -> •<=KT -> SM(1/sqrt(D_h), mask) -> S : P [B, N_H, S, S_k]
    d_S = d_softmax(dP, saved.P)  # [B, N_H, S, S_k], grad of softmax
    d_SM = d_scale_mask(  # [B, N_H, S, S_k], grad of scale_mask
        d_S, 1 / D_h**0.5, S, S_k
    )
    dQ = d_SM @ saved.KT.swapaxes(-1, -2)  # [B, N_H, S, D_h], grad of matmul
    dKT = saved.Q.swapaxes(-1, -2) @ d_SM  # [B, N_H, D_h, S_k], grad of matmul
    # backward of M -> •<=W_V -> ⊕<-BC(b_V) -> R : V [B, N_H, S_k, D_h]
    d_R_V = dV.swapaxes(1, 2).reshape(B, S_k, D)  # [B, S_k, D], grad of reshape
    db_V = d_R_V.sum(axis=(0, 1))  # [D], grad of broadcast
    dW_V = saved.M.reshape(-1, D).T @ d_R_V.reshape(-1, D)  # [D, D], grad of matmul
    # backward of -> T : KT [B, N_H, D_h, S_k]
    dK = dKT.swapaxes(-1, -2)  # [B, N_H, S_k, D_h], grad of transpose
    # backward of M -> •<=W_K -> ⊕<-BC(b_K) -> R -> RoPE if pos = rope : K
    #       [B, N_H, S_k, D_h]
    d_R_K = dK.swapaxes(1, 2).reshape(B, S_k, D)  # [B, S_k, D], grad of reshape
    db_K = d_R_K.sum(axis=(0, 1))  # [D], grad of broadcast
    dW_K = saved.M.reshape(-1, D).T @ d_R_K.reshape(-1, D)  # [D, D], grad of matmul
    # backward of X -> •<=W_Q -> ⊕<-BC(b_Q) -> R -> RoPE if pos = rope : Q
    #       [B, N_H, S, D_h]
    d_R_Q = dQ.swapaxes(1, 2).reshape(B, S, D)  # [B, S, D], grad of reshape
    db_Q = d_R_Q.sum(axis=(0, 1))  # [D], grad of broadcast
    dX = d_R_Q @ W_Q.T  # [B, S, D], grad of matmul
    dW_Q = saved.X.reshape(-1, D).T @ d_R_Q.reshape(-1, D)  # [D, D], grad of matmul
    # backward of M -> •<=W_V -> ⊕<-BC(b_V) -> R : V [B, N_H, S_k, D_h]
    # backward of M -> •<=W_K -> ⊕<-BC(b_K) -> R -> RoPE if pos = rope : K
    #       [B, N_H, S_k, D_h]
    dM = d_R_V @ W_V.T + d_R_K @ W_K.T  # [B, S_k, D], grad of matmul, sum over uses
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


def mlp(params: Params, at: str, X: Array) -> tuple[Array, MLPSaved]:
    """Block MLP.

    X [B, S, D] -> Y [B, S, D]
    """
    W_up = params[f"{at}.W_up"]  # [D, D_ff]
    b_up = params[f"{at}.b_up"]  # [D_ff]
    W_down = params[f"{at}.W_down"]  # [D_ff, D]
    b_down = params[f"{at}.b_down"]  # [D]
    # X -> •<=W_up -> ⊕<-BC(b_up) -> act : U [B, S, D_ff]
    add = X @ W_up + b_up  # [B, S, D_ff]
    U = gelu(add)  # [B, S, D_ff]
    # -> •<=W_down -> ⊕<-BC(b_down) : Y
    Y = U @ W_down + b_down  # [B, S, D]
    return Y, MLPSaved(X, add, U)


def d_mlp(params: Params, at: str, saved: MLPSaved, dY: Array, grads: Params) -> Array:
    """Backward pass of `mlp`.

    dY [B, S, D] -> dX [B, S, D], gradients of parameters in `grads`
    """
    W_up = params[f"{at}.W_up"]  # [D, D_ff]
    W_down = params[f"{at}.W_down"]  # [D_ff, D]
    D = saved.X.shape[2]
    D_ff = saved.add.shape[2]
    # backward of -> •<=W_down -> ⊕<-BC(b_down) : Y
    db_down = dY.sum(axis=(0, 1))  # [D], grad of broadcast
    dU = dY @ W_down.T  # [B, S, D_ff], grad of matmul
    dW_down = (  # [D_ff, D], grad of matmul
        saved.U.reshape(-1, D_ff).T @ dY.reshape(-1, D)
    )
    # backward of X -> •<=W_up -> ⊕<-BC(b_up) -> act : U [B, S, D_ff]
    d_GELU = d_gelu(dU, saved.add)  # [B, S, D_ff], grad of gelu
    db_up = d_GELU.sum(axis=(0, 1))  # [D_ff], grad of broadcast
    dX = d_GELU @ W_up.T  # [B, S, D], grad of matmul
    dW_up = (  # [D, D_ff], grad of matmul
        saved.X.reshape(-1, D).T @ d_GELU.reshape(-1, D_ff)
    )
    grads |= {
        f"{at}.W_up": dW_up,
        f"{at}.b_up": db_up,
        f"{at}.W_down": dW_down,
        f"{at}.b_down": db_down,
    }
    return dX


def layer(
    params: Params, at: str, X: Array, *, seed: int | None
) -> tuple[Array, LayerSaved]:
    """Transformer Layer: block Layer.

    X [B, S, D] -> Y [B, S, D]
    """
    gamma_1 = params[f"{at}.gamma_1"]  # [D]
    gamma_2 = params[f"{at}.gamma_2"]  # [D]
    beta_1 = params[f"{at}.beta_1"]  # [D]
    beta_2 = params[f"{at}.beta_2"]  # [D]
    # X -> LN(γ_1, β_1) if norm = pre : H [B, S, D]
    H, H_mean, H_rstd = layer_norm(X, gamma_1, beta_1, 1e-05)  # [B, S, D]
    # H, H -> Attention(mask, p) as attn -> DO(p) -> ⊕<-X
    attn_out, attn_saved = attention(params, f"{at}.attn", H, H, seed=seed)  # [B, S, D]
    dropout_1, dropout_keep = dropout(attn_out, 0.1, seed, f"{at}.DO_1")  # [B, S, D]
    M = dropout_1 + X  # [B, S, D]
    # M -> LN(γ_2, β_2) if norm = pre
    layer_norm_1, layer_norm_mean, layer_norm_rstd = layer_norm(  # [B, S, D]
        M, gamma_2, beta_2, 1e-05
    )
    # -> ffn -> DO(p) -> ⊕<-M
    ffn_out, ffn_saved = mlp(params, f"{at}.ffn", layer_norm_1)  # [B, S, D]
    dropout_2, dropout_keep_2 = dropout(ffn_out, 0.1, seed, f"{at}.DO_2")  # [B, S, D]
    Y = dropout_2 + M  # [B, S, D]
    saved = LayerSaved(
        X,
        H_mean,
        H_rstd,
        attn_saved,
        dropout_keep,
        M,
        layer_norm_mean,
        layer_norm_rstd,
        ffn_saved,
        dropout_keep_2,
    )
    return Y, saved


def d_layer(
    params: Params, at: str, saved: LayerSaved, dY: Array, grads: Params
) -> Array:
    """Backward pass of `layer`.

    dY [B, S, D] -> dX [B, S, D], gradients of parameters in `grads`
    """
    gamma_1 = params[f"{at}.gamma_1"]  # [D]
    gamma_2 = params[f"{at}.gamma_2"]  # [D]
    # backward of -> ffn -> DO(p) -> ⊕<-M
    d_DO_2 = d_dropout(dY, saved.dropout_keep_2, 0.1)  # [B, S, D], grad of dropout
    d_ffn = d_mlp(  # [B, S, D], grad of MLP
        params, f"{at}.ffn", saved.ffn, d_DO_2, grads
    )
    # backward of M -> LN(γ_2, β_2) if norm = pre
    dM_LN, dgamma_2, dbeta_2 = d_layer_norm(  # [B, S, D], grad of layer_norm
        d_ffn, saved.M, gamma_2, saved.layer_norm_mean, saved.layer_norm_rstd
    )
    dM = dY + dM_LN  # [B, S, D], sum over uses
    # backward of H, H -> Attention(mask, p) as attn -> DO(p) -> ⊕<-X
    d_DO_1 = d_dropout(dM, saved.dropout_keep, 0.1)  # [B, S, D], grad of dropout
    dH_attn_X, dH_attn_M = d_attention(  # [B, S, D], grad of Attention
        params, f"{at}.attn", saved.attn, d_DO_1, grads
    )
    dH = dH_attn_X + dH_attn_M  # [B, S, D], sum over uses
    # backward of X -> LN(γ_1, β_1) if norm = pre : H [B, S, D]
    dX_LN, dgamma_1, dbeta_1 = d_layer_norm(  # [B, S, D], grad of layer_norm
        dH, saved.X, gamma_1, saved.H_mean, saved.H_rstd
    )
    dX = dM + dX_LN  # [B, S, D], sum over uses
    grads |= {
        f"{at}.gamma_1": dgamma_1,
        f"{at}.gamma_2": dgamma_2,
        f"{at}.beta_1": dbeta_1,
        f"{at}.beta_2": dbeta_2,
    }
    return dX


def lm(
    params: Params, ids: Array, t: Array, *, seed: int | None
) -> tuple[Array, Array, LMSaved]:
    """Language Model: block LM.

    ids [B, S], t [B, S] -> Z [B, S, V], loss []
    """
    E = params["E"]  # [V, D]
    P = params["P"]  # [S_max, D]
    gamma = params["gamma"]  # [D]
    beta = params["beta"]  # [D]
    B, S = ids.shape
    # range(S) -> Emb(P) : PE [S, D]
    range_1 = np.arange(S)  # [S]
    PE = P[range_1]  # [S, D]
    # ids -> Emb(E)
    # -> ⊕<-BC(PE) if pos = learned
    X = E[ids] + PE  # [B, S, D]
    # -> N_L × Layer(causal) as layers
    layers_out = X
    layers_saved: list[LayerSaved] = []
    for i in range(N_L):
        layers_out, layer_saved = layer(  # [B, S, D]
            params, f"layers.{i}", layers_out, seed=seed
        )
        layers_saved.append(layer_saved)
    # -> LN(γ, β) if norm = pre : Y [B, S, D]
    Y, Y_mean, Y_rstd = layer_norm(layers_out, gamma, beta, 1e-05)  # [B, S, D]
    # -> •<=T(E) if head = tied -> •<=W_lm if head = own : Z
    transpose = E.T  # [D, V]
    Z = Y @ transpose  # [B, S, V]
    # -> CE<-t : loss
    loss, loss_lse = cross_entropy(Z, t, B * S)  # []
    saved = LMSaved(
        ids,
        t,
        range_1,
        layers_out,
        layers_saved,
        Y,
        Y_mean,
        Y_rstd,
        transpose,
        Z,
        loss_lse,
    )
    return Z, loss, saved


def d_lm(
    params: Params, saved: LMSaved, dZ: Array, dloss: Array, grads: Params
) -> None:
    """Backward pass of `lm`.

    dZ [B, S, V], dloss [] -> gradients of parameters in `grads`
    """
    gamma = params["gamma"]  # [D]
    B, S = saved.ids.shape
    D = saved.layers_out.shape[2]
    V = saved.transpose.shape[1]
    S_max = params["P"].shape[0]
    # backward of -> CE<-t : loss
    dZ_CE = d_cross_entropy(  # [B, S, V], grad of cross_entropy
        dloss, saved.Z, saved.t, saved.loss_lse, B * S, B, S, V
    )
    dZ = dZ + dZ_CE  # [B, S, V], sum over uses
    # backward of -> •<=T(E) if head = tied -> •<=W_lm if head = own : Z
    dY = dZ @ saved.transpose.T  # [B, S, D], grad of matmul
    # backward of -> LN(γ, β) if norm = pre : Y [B, S, D]
    d_LN, dgamma, dbeta = d_layer_norm(  # [B, S, D], grad of layer_norm
        dY, saved.layers_out, gamma, saved.Y_mean, saved.Y_rstd
    )
    # backward of -> N_L × Layer(causal) as layers
    dX = d_LN
    for i in reversed(range(len(saved.layers))):
        dX = d_layer(  # [B, S, D], grad of Layer
            params, f"layers.{i}", saved.layers[i], dX, grads
        )
    # backward of -> ⊕<-BC(PE) if pos = learned
    dPE = dX.sum(axis=0)  # [S, D], grad of broadcast
    # backward of range(S) -> Emb(P) : PE [S, D]
    dP = _scatter_add(dPE, saved.range_1, S_max)  # [S_max, D], grad of embedding
    # backward of -> •<=T(E) if head = tied -> •<=W_lm if head = own : Z
    dE_T = (  # [V, D], grad of matmul, transpose
        dZ.reshape(-1, V).T @ saved.Y.reshape(-1, D)
    )
    # backward of ids -> Emb(E)
    dE = (  # [V, D], grad of embedding, sum over uses
        dE_T + _scatter_add(dX, saved.ids, V)
    )
    grads |= {
        "E": dE,
        "P": dP,
        "gamma": dgamma,
        "beta": dbeta,
    }


# ---- saved values --------------------------------------------------------------------


class AttentionSaved(NamedTuple):
    """Values of `attention` that `d_attention` needs."""

    X: Array  # [B, S, D]
    M: Array  # [B, S_k, D]
    Q: Array  # [B, N_H, S, D_h]
    KT: Array  # [B, N_H, D_h, S_k]
    V: Array  # [B, N_H, S_k, D_h]
    P: Array  # [B, N_H, S, S_k]
    AS: Array  # [B, N_H, S, S_k]
    AS_keep: Array | None  # [B, N_H, S, S_k]
    O: Array  # [B, S, D]


class MLPSaved(NamedTuple):
    """Values of `mlp` that `d_mlp` needs."""

    X: Array  # [B, S, D]
    add: Array  # [B, S, D_ff]
    U: Array  # [B, S, D_ff]


class LayerSaved(NamedTuple):
    """Values of `layer` that `d_layer` needs."""

    X: Array  # [B, S, D]
    H_mean: Array  # [B, S, 1]
    H_rstd: Array  # [B, S, 1]
    attn: AttentionSaved
    dropout_keep: Array | None  # [B, S, D]
    M: Array  # [B, S, D]
    layer_norm_mean: Array  # [B, S, 1]
    layer_norm_rstd: Array  # [B, S, 1]
    ffn: MLPSaved
    dropout_keep_2: Array | None  # [B, S, D]


class LMSaved(NamedTuple):
    """Values of `lm` that `d_lm` needs."""

    ids: Array  # [B, S]
    t: Array  # [B, S]
    range_1: Array  # [S]
    layers_out: Array  # [B, S, D]
    layers: list[LayerSaved]
    Y: Array  # [B, S, D]
    Y_mean: Array  # [B, S, 1]
    Y_rstd: Array  # [B, S, 1]
    transpose: Array  # [D, V]
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


def init(
    seed: int = 0,
    dtype: DType = np.float32,
    *,
    V: int = V,
    D: int = D,
    S_max: int = S_max,
) -> Params:
    """Make the parameters, by their names in the diagram, drawn from the seed."""
    D_ff = 4 * D
    if D % N_H:
        raise ValueError(f"D_h = D/N_H = {D}/{N_H} is not a whole number")
    _check_float(dtype)
    params: Params = {}
    table = _param_table(V=V, D=D, S_max=S_max, N_L=N_L, D_ff=D_ff)
    for name, (shape, start) in table.items():
        if start == "ones":
            params[name] = np.ones(shape, dtype)
        elif start == "zeros":
            params[name] = np.zeros(shape, dtype)
        else:
            params[name] = _normal(seed, name, shape, float(start)).astype(dtype)
    return params


@_in_float32
def forward(
    params: Params, inputs: Mapping[str, Array], *, seed: int | None = None
) -> tuple[dict[str, Array], LMSaved]:
    """Outputs by name, and the values that `backward` needs.

    Without a seed dropout is off.
    """
    _check("inputs", inputs, {"ids": 2}, params, "t")
    B, S = inputs["ids"].shape
    V, D = _array(params, "E", 2).shape
    S_max = _array(params, "P", 2).shape[0]
    D_ff = 4 * D
    table = _param_table(V=V, D=D, S_max=S_max, N_L=N_L, D_ff=D_ff)
    shapes = {name: shape for name, (shape, _) in table.items()}
    _check("params", params, shapes, inputs)
    _check("inputs", inputs, {"ids": (B, S), "t": (B, S)}, {})
    _check_floats(params, inputs)
    inputs = dict(inputs)
    inputs["ids"] = _integers(inputs["ids"], "ids", V)
    inputs["t"] = _integers(inputs["t"], "t", V)
    if S > S_max:
        excess = f"S = {S} is more than S_max = {S_max}"
        raise ValueError(f"{excess}: the table must have a row for every position")
    if S < 1:
        raise ValueError(f"S = {S}: S (softmax) needs at least one position")
    if D % N_H:
        raise ValueError(f"D_h = D/N_H = {D}/{N_H} is not a whole number")
    Z, loss, saved = lm(params, inputs["ids"], inputs["t"], seed=seed)
    return {"Z": Z, "loss": loss}, saved


@_in_float32
def backward(params: Params, saved: LMSaved, d_outputs: Mapping[str, Array]) -> Params:
    """Gradients of all parameters and float inputs by name; no cotangent means zero."""
    if not hasattr(saved, "ids"):
        raise TypeError("saved should be the second result of forward, not its first")
    B, S = saved.ids.shape
    V = saved.transpose.shape[1]
    _check("d_outputs", d_outputs, {"Z": (B, S, V), "loss": ()}, params)
    dtype = next(iter({**params, **d_outputs}.values())).dtype
    dZ = d_outputs.get("Z")
    if dZ is None:
        dZ = np.zeros((B, S, V), dtype)
    dloss = d_outputs.get("loss")
    if dloss is None:
        dloss = np.zeros((), dtype)
    grads: Params = {}
    d_lm(params, saved, dZ, dloss, grads)
    return grads


# ---- operators -----------------------------------------------------------------------


def scale_mask(a: Array, scale: float, S: int, S_k: int) -> Array:
    """z_ij = α a_ij if j <= i + S_k - S, else -inf."""
    visible = np.arange(-S + S_k, S_k)[..., None] >= np.arange(S_k)
    return np.where(visible, a * scale, -np.inf)


def softmax(z: Array) -> Array:
    """p_i = exp(z_i) / Σ_j exp(z_j)."""
    peak = z.max(axis=-1, keepdims=True)
    e = np.exp(z - np.where(peak > -np.inf, peak, 0))
    total = e.sum(axis=-1, keepdims=True)
    return e / np.where(total == 0, 1, total)


def dropout(
    x: Array, p: float, seed: int | None, place: str
) -> tuple[Array, Array | None]:
    """Y = m ⊙ X / (1 - p), m = 0 or 1."""
    keep = _keep_mask(x.shape, p, seed, place)
    return _drop(x, keep, 1 - p), keep


def d_dropout(dy: Array, keep: Array | None, p: float) -> Array:
    """Gradient of dropout: dX = m ⊙ dY / (1 - p)."""
    return _drop(dy, keep, 1 - p)


def d_softmax(dp: Array, p: Array) -> Array:
    """Gradient of softmax: dZ = (dP - Σ dP ⊙ P) ⊙ P, Σ over the last axis."""
    return (dp - (dp * p).sum(axis=-1, keepdims=True)) * p


def d_scale_mask(dz: Array, scale: float, S: int, S_k: int) -> Array:
    """Gradient of scale_mask: da_ij = α dz_ij if j <= i + S_k - S, else 0."""
    visible = np.arange(-S + S_k, S_k)[..., None] >= np.arange(S_k)
    return np.where(visible, dz * scale, 0)


def gelu(x: Array) -> Array:
    """Y = X ⊙ (1 + tanh(u)) / 2, u = sqrt(2/π) (X + 0.044715 X³)."""
    t = np.tanh(0.7978845608028654 * x * (1 + 0.044715 * x**2))
    return 0.5 * x * (1 + t)


def d_gelu(dy: Array, x: Array) -> Array:
    """Gradient of gelu.

    dX = dY ⊙ (1 + t + X ⊙ (1 - t²) ⊙ u') / 2, t = tanh(u), u' = sqrt(2/π) (1 + 3 ·
    0.044715 X²).
    """
    t = np.tanh(0.7978845608028654 * x * (1 + 0.044715 * x**2))
    d_inner = 0.7978845608028654 * (1 + 0.134145 * x**2)
    slope = 0.5 * (1 + t) + 0.5 * x * (1 - t**2) * d_inner
    return dy * slope


def layer_norm(
    x: Array, gamma: Array, beta: Array, eps: float
) -> tuple[Array, Array, Array]:
    """Y = x̂ ⊙ γ + β, x̂ = (X - μ) / sqrt(σ² + ε)."""
    mean = x.mean(axis=-1, keepdims=True)
    centred = x - mean
    rstd = 1 / np.sqrt((centred**2).mean(axis=-1, keepdims=True) + eps)
    return centred * rstd * gamma + beta, mean, rstd


def d_layer_norm(
    dy: Array, x: Array, gamma: Array, mean: Array, rstd: Array
) -> tuple[Array, Array, Array]:
    """Gradient of layer_norm.

    dX = (dx̂ - mean(dx̂) - x̂ mean(dx̂ ⊙ x̂)) / sqrt(σ² + ε), dx̂ = dY ⊙ γ, dγ = Σ dY ⊙
    x̂, dβ = Σ dY.
    """
    dx_hat = dy * gamma
    x_hat = (x - mean) * rstd
    part = x_hat * (dx_hat * x_hat).mean(axis=-1, keepdims=True)
    dx = rstd * (dx_hat - dx_hat.mean(axis=-1, keepdims=True) - part)
    dgamma = (dy * x_hat).sum(axis=(0, 1))
    dbeta = dy.sum(axis=(0, 1))
    return dx, dgamma, dbeta


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


def _param_table(*, V: int, D: int, S_max: int, N_L: int, D_ff: int) -> ParamTable:
    """Shape and start of every parameter: ones, zeros or a standard deviation."""
    _refuse_empty(V=V, D=D, S_max=S_max)
    table: ParamTable = {
        "E": ((V, D), D**-0.5),
        "P": ((S_max, D), D**-0.5),
        "gamma": ((D,), "ones"),
        "beta": ((D,), "zeros"),
    }
    for i in range(N_L):
        table |= {
            f"layers.{i}.gamma_1": ((D,), "ones"),
            f"layers.{i}.gamma_2": ((D,), "ones"),
            f"layers.{i}.beta_1": ((D,), "zeros"),
            f"layers.{i}.beta_2": ((D,), "zeros"),
            f"layers.{i}.attn.W_Q": ((D, D), D**-0.5),
            f"layers.{i}.attn.W_K": ((D, D), D**-0.5),
            f"layers.{i}.attn.W_V": ((D, D), D**-0.5),
            f"layers.{i}.attn.W_O": ((D, D), D**-0.5),
            f"layers.{i}.attn.b_Q": ((D,), "zeros"),
            f"layers.{i}.attn.b_K": ((D,), "zeros"),
            f"layers.{i}.attn.b_V": ((D,), "zeros"),
            f"layers.{i}.attn.b_O": ((D,), "zeros"),
            f"layers.{i}.ffn.W_up": ((D, D_ff), D**-0.5),
            f"layers.{i}.ffn.b_up": ((D_ff,), "zeros"),
            f"layers.{i}.ffn.W_down": ((D_ff, D), D_ff**-0.5),
            f"layers.{i}.ffn.b_down": ((D,), "zeros"),
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


def _drop(x: Array, keep: Array | None, kept: float) -> Array:
    """`x` scaled by 1 / kept where it is kept, else 0; `x` itself without a mask."""
    return x if keep is None else x * keep * (1 / kept)


def _keep_mask(
    shape: tuple[int, ...],
    p: float,
    seed: int | None,
    place: str,
) -> Array | None:
    """Draw which elements dropout keeps; None, all of them, without a seed."""
    if seed is None:
        return None
    drawn = _random_words(_random_key(seed, place), int(np.prod(shape)))
    return (drawn >> np.uint64(40) >= np.uint64(round(p * 2**24))).reshape(shape)


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
