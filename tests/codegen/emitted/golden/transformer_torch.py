"""Language Model: forward and backward pass in torch.

Compiled by xg 0.2.0 from transformer.xg, block LM. Change the diagram, not this file.

    forward(ids [B, S] in V, t [B, S] in V) -> Z [B, S, V], loss []
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple

import torch

Array = torch.Tensor
Params = dict[str, Array]
DType = torch.dtype
Device = torch.device | str | None
Seed = int | torch.Tensor | None
ParamTable = dict[str, tuple[tuple[int, ...], float | str]]

D = 64
N_H = 4
N_L = 4
S_max = 512
V = 256


def attention(
    params: Params, at: str, X: Array, M: Array, *, seed: Seed
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
    Q = (X @ W_Q + b_Q).reshape(B, S, N_H, D_h).transpose(1, 2)  # [B, N_H, S, D_h]
    # M -> •<=W_K -> ⊕<-BC(b_K) -> R -> RoPE if pos = rope : K [B, N_H, S_k, D_h]
    K = (M @ W_K + b_K).reshape(B, S_k, N_H, D_h).transpose(1, 2)  # [B, N_H, S_k, D_h]
    # -> T : KT [B, N_H, D_h, S_k]
    KT = K.mT  # [B, N_H, D_h, S_k]
    # M -> •<=W_V -> ⊕<-BC(b_V) -> R : V [B, N_H, S_k, D_h]
    V = (M @ W_V + b_V).reshape(B, S_k, N_H, D_h).transpose(1, 2)  # [B, N_H, S_k, D_h]
    # Q -> •<=KT -> SM(1/sqrt(D_h), mask) -> S : P [B, N_H, S, S_k]
    P = softmax(scale_mask(Q @ KT, 1 / D_h**0.5, S, S_k))  # [B, N_H, S, S_k]
    # -> DO(p) : AS [B, N_H, S, S_k]
    AS, AS_keep = dropout(P, 0.1, seed, f"{at}.AS")  # [B, N_H, S, S_k]
    # -> •<=V -> R : O [B, S, D]
    O = (AS @ V).transpose(1, 2).reshape(B, S, D)  # [B, S, D]
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
    db_O = dY.sum(dim=(0, 1))  # [D], grad of broadcast
    dO = dY @ W_O.T  # [B, S, D], grad of matmul
    dW_O = saved.O.reshape(-1, D).T @ dY.reshape(-1, D)  # [D, D], grad of matmul
    # backward of -> •<=V -> R : O [B, S, D]
    d_R_O = (  # [B, N_H, S, D_h], grad of reshape
        dO.reshape(B, S, N_H, D_h).transpose(1, 2)
    )
    dAS = d_R_O @ saved.V.mT  # [B, N_H, S, S_k], grad of matmul
    dV = saved.AS.mT @ d_R_O  # [B, N_H, S_k, D_h], grad of matmul
    # backward of -> DO(p) : AS [B, N_H, S, S_k]
    dP = d_dropout(dAS, saved.AS_keep, 0.1)  # [B, N_H, S, S_k], grad of dropout
    # backward of Q -> •<=KT -> SM(1/sqrt(D_h), mask) -> S : P [B, N_H, S, S_k]
    d_S = d_softmax(dP, saved.P)  # [B, N_H, S, S_k], grad of softmax
    d_SM = d_scale_mask(  # [B, N_H, S, S_k], grad of scale_mask
        d_S, 1 / D_h**0.5, S, S_k
    )
    dQ = d_SM @ saved.KT.mT  # [B, N_H, S, D_h], grad of matmul
    dKT = saved.Q.mT @ d_SM  # [B, N_H, D_h, S_k], grad of matmul
    # backward of M -> •<=W_V -> ⊕<-BC(b_V) -> R : V [B, N_H, S_k, D_h]
    d_R_V = dV.transpose(1, 2).reshape(B, S_k, D)  # [B, S_k, D], grad of reshape
    db_V = d_R_V.sum(dim=(0, 1))  # [D], grad of broadcast
    dW_V = saved.M.reshape(-1, D).T @ d_R_V.reshape(-1, D)  # [D, D], grad of matmul
    # backward of -> T : KT [B, N_H, D_h, S_k]
    dK = dKT.mT  # [B, N_H, S_k, D_h], grad of transpose
    # backward of M -> •<=W_K -> ⊕<-BC(b_K) -> R -> RoPE if pos = rope : K
    #       [B, N_H, S_k, D_h]
    d_R_K = dK.transpose(1, 2).reshape(B, S_k, D)  # [B, S_k, D], grad of reshape
    db_K = d_R_K.sum(dim=(0, 1))  # [D], grad of broadcast
    dW_K = saved.M.reshape(-1, D).T @ d_R_K.reshape(-1, D)  # [D, D], grad of matmul
    # backward of X -> •<=W_Q -> ⊕<-BC(b_Q) -> R -> RoPE if pos = rope : Q
    #       [B, N_H, S, D_h]
    d_R_Q = dQ.transpose(1, 2).reshape(B, S, D)  # [B, S, D], grad of reshape
    db_Q = d_R_Q.sum(dim=(0, 1))  # [D], grad of broadcast
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
    db_down = dY.sum(dim=(0, 1))  # [D], grad of broadcast
    dU = dY @ W_down.T  # [B, S, D_ff], grad of matmul
    dW_down = (  # [D_ff, D], grad of matmul
        saved.U.reshape(-1, D_ff).T @ dY.reshape(-1, D)
    )
    # backward of X -> •<=W_up -> ⊕<-BC(b_up) -> act : U [B, S, D_ff]
    d_GELU = d_gelu(dU, saved.add)  # [B, S, D_ff], grad of gelu
    db_up = d_GELU.sum(dim=(0, 1))  # [D_ff], grad of broadcast
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


def layer(params: Params, at: str, X: Array, *, seed: Seed) -> tuple[Array, LayerSaved]:
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
    params: Params, ids: Array, t: Array, *, seed: Seed
) -> tuple[Array, Array, LMSaved]:
    """Language Model: block LM.

    ids [B, S], t [B, S] -> Z [B, S, V], loss []
    """
    E = params["E"]  # [V, D]
    P = params["P"]  # [S_max, D]
    gamma = params["gamma"]  # [D]
    beta = params["beta"]  # [D]
    B, S = ids.shape
    device = ids.device
    # range(S) -> Emb(P) : PE [S, D]
    range_1 = torch.arange(S, device=device)  # [S]
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
    dPE = dX.sum(dim=0)  # [S, D], grad of broadcast
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


def init(
    seed: int = 0,
    dtype: DType = torch.float32,
    device: Device = None,
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
            params[name] = torch.ones(shape, dtype=dtype, device=device)
        elif start == "zeros":
            params[name] = torch.zeros(shape, dtype=dtype, device=device)
        else:
            params[name] = _normal(seed, name, shape, float(start)).to(device, dtype)
    return params


@torch.no_grad()
def forward(
    params: Params, inputs: Mapping[str, Array], *, seed: Seed = None
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


@torch.no_grad()
def backward(params: Params, saved: LMSaved, d_outputs: Mapping[str, Array]) -> Params:
    """Gradients of all parameters and float inputs by name; no cotangent means zero."""
    if not hasattr(saved, "ids"):
        raise TypeError("saved should be the second result of forward, not its first")
    B, S = saved.ids.shape
    V = saved.transpose.shape[1]
    _check("d_outputs", d_outputs, {"Z": (B, S, V), "loss": ()}, params)
    like = next(iter({**params, **d_outputs}.values()))
    dtype, device = like.dtype, like.device
    dZ = d_outputs.get("Z")
    if dZ is None:
        dZ = torch.zeros((B, S, V), dtype=dtype, device=device)
    dloss = d_outputs.get("loss")
    if dloss is None:
        dloss = torch.zeros((), dtype=dtype, device=device)
    grads: Params = {}
    d_lm(params, saved, dZ, dloss, grads)
    return grads


class Model(torch.nn.Module):
    """Language Model with its parameters."""

    def __init__(
        self,
        seed: int = 0,
        dtype: DType = torch.float32,
        device: Device = None,
        *,
        V: int = V,
        D: int = D,
        S_max: int = S_max,
    ) -> None:
        super().__init__()
        params = init(seed, dtype, device, V=V, D=D, S_max=S_max)
        self.E = torch.nn.Parameter(params["E"])
        self.P = torch.nn.Parameter(params["P"])
        self.gamma = torch.nn.Parameter(params["gamma"])
        self.beta = torch.nn.Parameter(params["beta"])
        self.layers = torch.nn.ModuleList(
            [Layer(params, f"layers.{i}") for i in range(N_L)]
        )

    def forward(self, ids: Array, t: Array, *, seed: Seed = None) -> dict[str, Array]:
        """Outputs by name; in training, dropout draws a seed if none is given."""
        inputs = {"ids": ids, "t": t}
        V = self.E.shape[0]
        S_max = self.P.shape[0]
        B, S = _array(inputs, "ids", 2).shape
        _check("arrays", inputs, {"ids": (B, S), "t": (B, S)}, {})
        ids = _integers(ids, "ids", V)
        t = _integers(t, "t", V)
        if S > S_max:
            excess = f"S = {S} is more than S_max = {S_max}"
            raise ValueError(f"{excess}: the table must have a row for every position")
        if S < 1:
            raise ValueError(f"S = {S}: S (softmax) needs at least one position")
        if seed is None and self.training:
            seed = torch.randint(2**62, (), device=ids.device)
        X = LMPart1Step.apply(("E", "P"), ids, self.E, self.P)
        layers_out = X
        for block in self.layers:
            layers_out = block(layers_out, seed=seed)
        Z, loss = LMPart2Step.apply(
            ("E", "gamma", "beta"), layers_out, t, self.E, self.gamma, self.beta
        )
        return {"Z": Z, "loss": loss}

    def extra_repr(self) -> str:
        return _shapes(self)


class Layer(torch.nn.Module):
    """Transformer Layer: block Layer, with its parameters."""

    def __init__(self, params: Params, at: str) -> None:
        super().__init__()
        self._at = at
        self.gamma_1 = torch.nn.Parameter(params[f"{at}.gamma_1"])
        self.gamma_2 = torch.nn.Parameter(params[f"{at}.gamma_2"])
        self.beta_1 = torch.nn.Parameter(params[f"{at}.beta_1"])
        self.beta_2 = torch.nn.Parameter(params[f"{at}.beta_2"])
        self.attn = Attention(params, f"{at}.attn")
        self.ffn = MLP(params, f"{at}.ffn")

    def forward(self, X: Array, *, seed: Seed = None) -> Array:
        """Run `layer` as one step of autograd."""
        weights = _weights(self, self._at)
        return LayerStep.apply(self._at, tuple(weights), seed, X, *weights.values())

    def extra_repr(self) -> str:
        return _shapes(self)


class Attention(torch.nn.Module):
    """Multi-Head Attention: block Attention, with its parameters."""

    def __init__(self, params: Params, at: str) -> None:
        super().__init__()
        self._at = at
        self.W_Q = torch.nn.Parameter(params[f"{at}.W_Q"])
        self.W_K = torch.nn.Parameter(params[f"{at}.W_K"])
        self.W_V = torch.nn.Parameter(params[f"{at}.W_V"])
        self.W_O = torch.nn.Parameter(params[f"{at}.W_O"])
        self.b_Q = torch.nn.Parameter(params[f"{at}.b_Q"])
        self.b_K = torch.nn.Parameter(params[f"{at}.b_K"])
        self.b_V = torch.nn.Parameter(params[f"{at}.b_V"])
        self.b_O = torch.nn.Parameter(params[f"{at}.b_O"])

    def forward(self, X: Array, M: Array, *, seed: Seed = None) -> Array:
        """Run `attention` as one step of autograd."""
        weights = _weights(self, self._at)
        return AttentionStep.apply(
            self._at, tuple(weights), seed, X, M, *weights.values()
        )

    def extra_repr(self) -> str:
        return _shapes(self)


class MLP(torch.nn.Module):
    """Block MLP, with its parameters."""

    def __init__(self, params: Params, at: str) -> None:
        super().__init__()
        self._at = at
        self.W_up = torch.nn.Parameter(params[f"{at}.W_up"])
        self.b_up = torch.nn.Parameter(params[f"{at}.b_up"])
        self.W_down = torch.nn.Parameter(params[f"{at}.W_down"])
        self.b_down = torch.nn.Parameter(params[f"{at}.b_down"])

    def forward(self, X: Array) -> Array:
        """Run `mlp` as one step of autograd."""
        weights = _weights(self, self._at)
        return MLPStep.apply(self._at, tuple(weights), X, *weights.values())

    def extra_repr(self) -> str:
        return _shapes(self)


# ---- steps of autograd ---------------------------------------------------------------


def lm_part_1(params: Params, ids: Array) -> tuple[Array, LMPart1Saved]:
    """Language Model, piece 1: block LM_part_1.

    ids [B, S] -> X [B, S, D]
    """
    E = params["E"]  # [V, D]
    P = params["P"]  # [S_max, D]
    S = ids.shape[1]
    device = ids.device
    # range(S) -> Emb(P) : PE [S, D]
    range_1 = torch.arange(S, device=device)  # [S]
    PE = P[range_1]  # [S, D]
    # ids -> Emb(E)
    # -> ⊕<-BC(PE) if pos = learned
    X = E[ids] + PE  # [B, S, D]
    return X, LMPart1Saved(ids, range_1)


def d_lm_part_1(params: Params, saved: LMPart1Saved, dX: Array, grads: Params) -> None:
    """Backward pass of `lm_part_1`.

    dX [B, S, D] -> gradients of parameters in `grads`
    """
    V = params["E"].shape[0]
    S_max = params["P"].shape[0]
    # backward of -> ⊕<-BC(PE) if pos = learned
    dPE = dX.sum(dim=0)  # [S, D], grad of broadcast
    # backward of ids -> Emb(E)
    dE = _scatter_add(dX, saved.ids, V)  # [V, D], grad of embedding
    # backward of range(S) -> Emb(P) : PE [S, D]
    dP = _scatter_add(dPE, saved.range_1, S_max)  # [S_max, D], grad of embedding
    grads |= {
        "E": dE,
        "P": dP,
    }


class LMPart1Saved(NamedTuple):
    """Values of `lm_part_1` that `d_lm_part_1` needs."""

    ids: Array  # [B, S]
    range_1: Array  # [S]


class LMPart1Step(torch.autograd.Function):
    """`lm_part_1` and `d_lm_part_1` as one step of autograd."""

    @staticmethod
    def forward(ctx: Any, names: tuple[str, ...], ids: Array, *weights: Array) -> Array:
        params = dict(zip(names, weights, strict=True))
        X, saved = lm_part_1(params, ids)
        _remember(ctx, params, [ids], saved)
        return X

    @staticmethod
    def backward(ctx: Any, dX: Array) -> tuple[Array | None, ...]:
        params, inputs, saved = _recall(ctx)
        grads: Params = {}
        with _as_before(ctx):
            if torch.is_grad_enabled():  # create_graph=True
                *_, saved = lm_part_1(params, *inputs)
            d_lm_part_1(params, saved, dX, grads)
        return None, None, *[grads.get(name) for name in params]


class LayerStep(torch.autograd.Function):
    """`layer` and `d_layer` as one step of autograd."""

    @staticmethod
    def forward(
        ctx: Any, at: str, names: tuple[str, ...], seed: Seed, X: Array, *weights: Array
    ) -> Array:
        params = dict(zip(names, weights, strict=True))
        Y, saved = layer(params, at, X, seed=seed)
        _remember(ctx, params, [X], saved)
        ctx.at = at
        ctx.seed = seed
        return Y

    @staticmethod
    def backward(ctx: Any, dY: Array) -> tuple[Array | None, ...]:
        params, inputs, saved = _recall(ctx)
        grads: Params = {}
        with _as_before(ctx):
            if torch.is_grad_enabled():  # create_graph=True
                *_, saved = layer(params, ctx.at, *inputs, seed=ctx.seed)
            dX = d_layer(params, ctx.at, saved, dY, grads)
        return None, None, None, dX, *[grads.get(name) for name in params]


def lm_part_2(
    params: Params, layers_out: Array, t: Array
) -> tuple[Array, Array, LMPart2Saved]:
    """Language Model, piece 2: block LM_part_2.

    value [B, S, D], t [B, S] -> Z [B, S, V], loss []
    """
    E = params["E"]  # [V, D]
    gamma = params["gamma"]  # [D]
    beta = params["beta"]  # [D]
    B, S = layers_out.shape[:2]
    # -> LN(γ, β) if norm = pre : Y [B, S, D]
    Y, Y_mean, Y_rstd = layer_norm(layers_out, gamma, beta, 1e-05)  # [B, S, D]
    # -> •<=T(E) if head = tied -> •<=W_lm if head = own : Z
    transpose = E.T  # [D, V]
    Z = Y @ transpose  # [B, S, V]
    # -> CE<-t : loss
    loss, loss_lse = cross_entropy(Z, t, B * S)  # []
    saved = LMPart2Saved(layers_out, t, Y, Y_mean, Y_rstd, transpose, Z, loss_lse)
    return Z, loss, saved


def d_lm_part_2(
    params: Params, saved: LMPart2Saved, dZ: Array, dloss: Array, grads: Params
) -> Array:
    """Backward pass of `lm_part_2`.

    dZ [B, S, V], dloss [] -> dvalue [B, S, D], gradients of parameters in `grads`
    """
    gamma = params["gamma"]  # [D]
    B, S, D = saved.layers_out.shape
    V = saved.transpose.shape[1]
    # backward of -> CE<-t : loss
    dZ_CE = d_cross_entropy(  # [B, S, V], grad of cross_entropy
        dloss, saved.Z, saved.t, saved.loss_lse, B * S, B, S, V
    )
    dZ = dZ + dZ_CE  # [B, S, V], sum over uses
    # backward of -> •<=T(E) if head = tied -> •<=W_lm if head = own : Z
    dY = dZ @ saved.transpose.T  # [B, S, D], grad of matmul
    dE = (  # [V, D], grad of matmul, transpose
        dZ.reshape(-1, V).T @ saved.Y.reshape(-1, D)
    )
    # backward of -> LN(γ, β) if norm = pre : Y [B, S, D]
    d_LN, dgamma, dbeta = d_layer_norm(  # [B, S, D], grad of layer_norm
        dY, saved.layers_out, gamma, saved.Y_mean, saved.Y_rstd
    )
    grads |= {
        "E": dE,
        "gamma": dgamma,
        "beta": dbeta,
    }
    return d_LN


class LMPart2Saved(NamedTuple):
    """Values of `lm_part_2` that `d_lm_part_2` needs."""

    layers_out: Array  # [B, S, D]
    t: Array  # [B, S]
    Y: Array  # [B, S, D]
    Y_mean: Array  # [B, S, 1]
    Y_rstd: Array  # [B, S, 1]
    transpose: Array  # [D, V]
    Z: Array  # [B, S, V]
    loss_lse: Array  # [B, S, 1]


class LMPart2Step(torch.autograd.Function):
    """`lm_part_2` and `d_lm_part_2` as one step of autograd."""

    @staticmethod
    def forward(
        ctx: Any, names: tuple[str, ...], layers_out: Array, t: Array, *weights: Array
    ) -> tuple[Array, Array]:
        params = dict(zip(names, weights, strict=True))
        Z, loss, saved = lm_part_2(params, layers_out, t)
        _remember(ctx, params, [layers_out, t], saved, Z, loss)
        return Z, loss

    @staticmethod
    def backward(
        ctx: Any, dZ: Array | None, dloss: Array | None
    ) -> tuple[Array | None, ...]:
        dZ, dloss = _arrived(ctx, dZ, dloss)
        params, inputs, saved = _recall(ctx)
        grads: Params = {}
        with _as_before(ctx):
            if torch.is_grad_enabled():  # create_graph=True
                *_, saved = lm_part_2(params, *inputs)
            dlayers_out = d_lm_part_2(params, saved, dZ, dloss, grads)
        return None, dlayers_out, None, *[grads.get(name) for name in params]


class AttentionStep(torch.autograd.Function):
    """`attention` and `d_attention` as one step of autograd."""

    @staticmethod
    def forward(
        ctx: Any,
        at: str,
        names: tuple[str, ...],
        seed: Seed,
        X: Array,
        M: Array,
        *weights: Array,
    ) -> Array:
        params = dict(zip(names, weights, strict=True))
        Y, saved = attention(params, at, X, M, seed=seed)
        _remember(ctx, params, [X, M], saved)
        ctx.at = at
        ctx.seed = seed
        return Y

    @staticmethod
    def backward(ctx: Any, dY: Array) -> tuple[Array | None, ...]:
        params, inputs, saved = _recall(ctx)
        grads: Params = {}
        with _as_before(ctx):
            if torch.is_grad_enabled():  # create_graph=True
                *_, saved = attention(params, ctx.at, *inputs, seed=ctx.seed)
            dX, dM = d_attention(params, ctx.at, saved, dY, grads)
        return None, None, None, dX, dM, *[grads.get(name) for name in params]


class MLPStep(torch.autograd.Function):
    """`mlp` and `d_mlp` as one step of autograd."""

    @staticmethod
    def forward(
        ctx: Any, at: str, names: tuple[str, ...], X: Array, *weights: Array
    ) -> Array:
        params = dict(zip(names, weights, strict=True))
        Y, saved = mlp(params, at, X)
        _remember(ctx, params, [X], saved)
        ctx.at = at
        return Y

    @staticmethod
    def backward(ctx: Any, dY: Array) -> tuple[Array | None, ...]:
        params, inputs, saved = _recall(ctx)
        grads: Params = {}
        with _as_before(ctx):
            if torch.is_grad_enabled():  # create_graph=True
                *_, saved = mlp(params, ctx.at, *inputs)
            dX = d_mlp(params, ctx.at, saved, dY, grads)
        return None, None, dX, *[grads.get(name) for name in params]


# ---- operators -----------------------------------------------------------------------


def _in_float32(rounded: int = 0) -> Callable[..., Any]:
    """Decorate an operator that adds, so that it computes half types in float32.

    A sum may exceed 65504, the largest float16. The first `rounded` results are
    rounded, or all of them. Values saved for the gradient stay float32.
    """

    def decorate(compute: Callable[..., Any]) -> Callable[..., Any]:
        def wide(*given: Any) -> Any:
            kinds = [x.dtype for x in given if _is_float(x)]
            half = kinds[0] if kinds else torch.float32
            others = [kind for kind in kinds if kind != half]
            if half not in [torch.float16, torch.bfloat16] or (rounded and others):
                return compute(*given)
            results = compute(*[_converted(x, half, torch.float32) for x in given])
            if isinstance(results, torch.Tensor):
                return _converted(results, torch.float32, half)
            count = rounded if rounded else len(results)
            first = [_converted(x, torch.float32, half) for x in results[:count]]
            return (*first, *results[count:])

        return wide

    return decorate


def scale_mask(a: Array, scale: float, S: int, S_k: int) -> Array:
    """z_ij = α a_ij if j <= i + S_k - S, else -inf."""
    part = torch.arange(-S + S_k, S_k, device=a.device)[..., None]
    visible = part >= torch.arange(S_k, device=a.device)
    return torch.where(visible, a * scale, -torch.inf)


@_in_float32(1)
def softmax(z: Array) -> Array:
    """p_i = exp(z_i) / Σ_j exp(z_j)."""
    peak = z.amax(dim=-1, keepdim=True)
    e = torch.exp(z - torch.where(peak > -torch.inf, peak, 0))
    total = e.sum(dim=-1, keepdim=True)
    return e / torch.where(total == 0, 1, total)


def dropout(x: Array, p: float, seed: Seed, place: str) -> tuple[Array, Array | None]:
    """Y = m ⊙ X / (1 - p), m = 0 or 1."""
    keep = _keep_mask(x, p, seed, place)
    return _drop(x, keep, 1 - p), keep


def d_dropout(dy: Array, keep: Array | None, p: float) -> Array:
    """Gradient of dropout: dX = m ⊙ dY / (1 - p)."""
    return _drop(dy, keep, 1 - p)


@_in_float32()
def d_softmax(dp: Array, p: Array) -> Array:
    """Gradient of softmax: dZ = (dP - Σ dP ⊙ P) ⊙ P, Σ over the last axis."""
    return (dp - (dp * p).sum(dim=-1, keepdim=True)) * p


def d_scale_mask(dz: Array, scale: float, S: int, S_k: int) -> Array:
    """Gradient of scale_mask: da_ij = α dz_ij if j <= i + S_k - S, else 0."""
    part = torch.arange(-S + S_k, S_k, device=dz.device)[..., None]
    visible = part >= torch.arange(S_k, device=dz.device)
    return torch.where(visible, dz * scale, 0)


def gelu(x: Array) -> Array:
    """Y = X ⊙ (1 + tanh(u)) / 2, u = sqrt(2/π) (X + 0.044715 X³)."""
    t = torch.tanh(0.7978845608028654 * x * (1 + 0.044715 * x**2))
    return 0.5 * x * (1 + t)


def d_gelu(dy: Array, x: Array) -> Array:
    """Gradient of gelu.

    dX = dY ⊙ (1 + t + X ⊙ (1 - t²) ⊙ u') / 2, t = tanh(u), u' = sqrt(2/π) (1 + 3 ·
    0.044715 X²).
    """
    t = torch.tanh(0.7978845608028654 * x * (1 + 0.044715 * x**2))
    d_inner = 0.7978845608028654 * (1 + 0.134145 * x**2)
    slope = 0.5 * (1 + t) + 0.5 * x * (1 - t**2) * d_inner
    return dy * slope


@_in_float32(1)
def layer_norm(
    x: Array, gamma: Array, beta: Array, eps: float
) -> tuple[Array, Array, Array]:
    """Y = x̂ ⊙ γ + β, x̂ = (X - μ) / sqrt(σ² + ε)."""
    mean = x.mean(dim=-1, keepdim=True)
    centred = x - mean
    rstd = 1 / torch.sqrt((centred**2).mean(dim=-1, keepdim=True) + eps)
    return centred * rstd * gamma + beta, mean, rstd


@_in_float32()
def d_layer_norm(
    dy: Array, x: Array, gamma: Array, mean: Array, rstd: Array
) -> tuple[Array, Array, Array]:
    """Gradient of layer_norm.

    dX = (dx̂ - mean(dx̂) - x̂ mean(dx̂ ⊙ x̂)) / sqrt(σ² + ε), dx̂ = dY ⊙ γ, dγ = Σ dY ⊙
    x̂, dβ = Σ dY.
    """
    dx_hat = dy * gamma
    x_hat = (x - mean) * rstd
    part = x_hat * (dx_hat * x_hat).mean(dim=-1, keepdim=True)
    dx = rstd * (dx_hat - dx_hat.mean(dim=-1, keepdim=True) - part)
    dgamma = (dy * x_hat).sum(dim=(0, 1))
    dbeta = dy.sum(dim=(0, 1))
    return dx, dgamma, dbeta


@_in_float32(1)
def cross_entropy(z: Array, t: Array, count: float) -> tuple[Array, Array]:
    """loss = Σ (log Σ_j exp(z_j) - z_t) / count."""
    peak = z.amax(dim=-1, keepdim=True)
    shifted = z - peak
    log_total = torch.log(torch.exp(shifted).sum(dim=-1, keepdim=True))
    lse = peak + log_total
    return (log_total[..., 0] - _pick(shifted, t)).sum() / count, lse


@_in_float32()
def d_cross_entropy(
    dloss: Array, z: Array, t: Array, lse: Array, count: float, B: int, S: int, V: int
) -> Array:
    """Gradient of cross_entropy: dZ = (softmax(Z) - onehot(t)) / count · dloss."""
    p = torch.exp(z - lse)
    part = dloss / count
    return p * part - _place(part.expand(B, S), t, V)


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


def _shapes(block: torch.nn.Module) -> str:
    """Names and shapes of the parameters that are the block's own, for its `repr`."""
    own = block.named_parameters(recurse=False, remove_duplicate=False)
    return ", ".join([f"{name} {list(weight.shape)}" for name, weight in own])


def _weights(block: Any, at: str) -> Params:
    """The parameters of a block by their names in the model, parametrized or not."""
    named = block.named_parameters(recurse=False, remove_duplicate=False)
    weights: Params = {f"{at}.{name}": weight for name, weight in named}
    for name, part in block._modules.items():
        if isinstance(part, torch.nn.ModuleDict):  # of parametrizations
            weights |= {f"{at}.{own}": each() for own, each in part.items()}
        elif isinstance(part, torch.nn.ModuleList):
            weights |= _weights(part, f"{at}.{name}")
        elif part is not None:
            weights |= _inside(part, f"{at}.{name}")
    return weights


def _inside(part: torch.nn.Module, at: str) -> Params:
    """The parameters of a block, or of one in a module of others such as PEFT's.

    That may set them for the length of a call: they are read in one, which computes
    nothing.
    """
    if "_at" in part.__dict__:
        return _weights(part, at)
    blocks = [each for each in part.modules() if "_at" in each.__dict__]
    if not blocks:
        raise ValueError(f"{at} is to be a block of this file, or a module around it")
    weights: Params = {}

    def read(*_: Any) -> None:
        weights.update(_weights(blocks[0], at))

    own = blocks[0].__dict__.pop("forward", None)
    blocks[0].forward = read
    try:
        part(None)
    finally:
        blocks[0].__dict__.pop("forward")
        if own is not None:
            blocks[0].forward = own
    return weights


def _remember(
    ctx: Any, params: Params, inputs: list[Array], saved: Any, *results: Array
) -> None:
    """Hand autograd what the backward pass needs: it frees every tensor after its use.

    Of several results some may have no cotangent: torch is not to make zeros for them.
    """
    tensors = [*params.values(), *inputs]
    ctx.names, ctx.inputs = tuple(params), len(inputs)
    ctx.kept = _packed(saved, tensors)
    ctx.save_for_backward(*tensors)
    if results:
        ctx.set_materialize_grads(False)
        ctx.results = [(y.shape, y.dtype, y.device) for y in results]
    device = tensors[0].device.type if tensors else "cpu"
    enabled = torch.is_autocast_enabled(device)
    ctx.autocast = (device, torch.get_autocast_dtype(device), enabled)


def _recall(ctx: Any) -> tuple[Params, list[Array], Any]:
    """Parameters, inputs and saved values, as the forward pass had them."""
    tensors = iter(ctx.saved_tensors)
    params = {name: next(tensors) for name in ctx.names}
    inputs = [next(tensors) for _ in range(ctx.inputs)]
    return params, inputs, _unpacked(ctx.kept, tensors)


def _arrived(ctx: Any, *cotangents: Array | None) -> list[Array]:
    """The cotangent of each result: one zero, repeated, where nothing depends on it."""
    arrived: list[Array] = []
    for dy, (shape, dtype, device) in zip(cotangents, ctx.results, strict=True):
        if dy is None:
            dy = torch.zeros((), dtype=dtype, device=device).expand(shape)
        arrived.append(dy)
    return arrived


def _as_before(ctx: Any) -> AbstractContextManager[Any]:
    """The autocast state of the forward pass, entered again where it has changed."""
    device, dtype, enabled = ctx.autocast
    if enabled or torch.is_autocast_enabled(device):
        return torch.autocast(device, dtype, enabled)
    return nullcontext()


class _Kept(NamedTuple):
    """Saved values without their tensors: class, names of the tensors, all the rest."""

    kind: Any
    names: list[str]
    rest: dict[str, Any]


def _packed(saved: Any, tensors: list[Array]) -> Any:
    """Saved values without their tensors, which are appended to a list."""
    if saved is None or isinstance(saved, int | torch.SymInt):
        return saved
    if isinstance(saved, list):
        return [_packed(part, tensors) for part in saved]
    names: list[str] = []
    rest: dict[str, Any] = {}
    for name, part in saved._asdict().items():
        if isinstance(part, torch.Tensor):
            names.append(name)
            tensors.append(part)
        else:
            rest[name] = part
    rest = {name: _packed(part, tensors) for name, part in rest.items()}
    return _Kept(saved.__class__, names, rest)


def _unpacked(kept: Any, tensors: Iterator[Array]) -> Any:
    """Saved values with their tensors again."""
    if isinstance(kept, _Kept):
        fields: dict[str, Any] = {name: next(tensors) for name in kept.names}
        for name, part in kept.rest.items():
            fields[name] = _unpacked(part, tensors)
        return kept.kind(**fields)
    if isinstance(kept, list):
        return [_unpacked(part, tensors) for part in kept]
    return kept


def _integers(ids: Array, name: str, below: int | None, *left_out: int) -> Array:
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


def _is_float(x: Any) -> bool:
    """Whether it is a tensor of floats."""
    return isinstance(x, torch.Tensor) and x.is_floating_point()


def _converted(x: Any, kind: DType, to: DType) -> Any:
    """A tensor of one type in another; anything else as it is."""
    return x.to(to) if isinstance(x, torch.Tensor) and x.dtype == kind else x


def _check_floats(
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


def _pick(x: Array, ids: Array) -> Array:
    """One element per row of the last axis."""
    return x.gather(-1, ids[..., None])[..., 0]


def _place(values: Array, ids: Array, length: int) -> Array:
    """Zeros with one value per row of a new last axis, at its id."""
    rows = values.new_zeros((*ids.shape, length))
    return rows.scatter_(-1, ids[..., None], values[..., None])


def _scatter_add(updates: Array, ids: Array, rows: int) -> Array:
    """Sum rows by their ids: the gradient of a table that was read by them."""
    axes = updates.shape[ids.ndim :]
    # In bfloat16, 256 + 1 is 256.
    wide = torch.promote_types(updates.dtype, torch.float32)
    table = updates.new_zeros((rows, *axes), dtype=wide)
    table.index_add_(0, ids.reshape(-1), updates.reshape(ids.numel(), *axes).to(wide))
    return table.to(updates.dtype)


def _drop(x: Array, keep: Array | None, kept: float) -> Array:
    """`x` scaled by 1 / kept where it is kept, else 0; `x` itself without a mask."""
    return x if keep is None else x * keep * (1 / kept)


def _keep_mask(x: Array, p: float, seed: Seed, place: str) -> Array | None:
    """Draw which elements of `x` dropout keeps; None, all of them, without a seed."""
    if seed is None:
        return None
    drawn = _random_words(_random_key(seed, place, x.device), x.numel())
    return (_shift_right(drawn, 40) >= round(p * 2**24)).reshape(x.shape)


def _check_float(dtype: DType) -> None:
    """Raise TypeError for another type than one of floats."""
    if not (hasattr(dtype, "is_floating_point") and dtype.is_floating_point):
        raise TypeError(f"dtype should be a type of floats of torch, not {dtype}")


def _normal(seed: Seed, place: str, shape: tuple[int, ...], deviation: float) -> Array:
    """Nearly normal numbers, from integers alone: sums of four uniforms of 16 bits."""
    drawn = _random_words(_random_key(seed, place), math.prod(shape))
    centred = torch.full_like(drawn, -2 * 65535)
    for lane in range(4):
        centred += _shift_right(drawn, 16 * lane) & 65535
    scale = deviation / ((65536**2 - 1) / 3) ** 0.5
    return (centred.double() * scale).reshape(shape)


def _random_key(seed: Seed, place: str, device: Device = None) -> Array:
    """The key of the random numbers of one place: FNV-1a of its name, and the seed."""
    if not hasattr(seed, "__index__"):
        raise TypeError(f"seed should be a whole number, not {str(seed)!r}")
    digest = 0xCBF29CE484222325
    for char in place:
        digest = (digest ^ ord(char)) * 0x100000001B3 % 2**64
    if isinstance(seed, int):
        seed = _signed(seed % 2**64)
    start = torch.as_tensor(seed, dtype=torch.int64, device=device)
    return _mix(_mix(start) ^ _signed(digest))


def _random_words(key: Array, count: int) -> Array:
    """Random 64-bit words (SplitMix64): word i depends on the key and i alone."""
    return _words_at(key, torch.arange(count, device=key.device))


def _words_at(key: Array, index: Array) -> Array:
    """The random words of some elements, by their places in the whole."""
    return _mix((index + 1) * _signed(0x9E3779B97F4A7C15) + key)


def _mix(z: Array) -> Array:
    """Make every bit of a word depend on all of it."""
    z = (z ^ _shift_right(z, 30)) * _signed(0xBF58476D1CE4E5B9)
    z = (z ^ _shift_right(z, 27)) * _signed(0x94D049BB133111EB)
    return z ^ _shift_right(z, 31)


def _shift_right(z: Array, bits: int) -> Array:
    """Shift words to the right, zeros moving in: torch would copy the sign."""
    return z >> bits & 2 ** (64 - bits) - 1 if bits else z


def _signed(word: int) -> int:
    """A 64-bit word as torch holds it."""
    return word - 2**64 if word >= 2**63 else word
