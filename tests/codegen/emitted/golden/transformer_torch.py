"""Language Model: forward and backward pass in torch.

Compiled by xg from transformer.xg, block LM. Change the diagram, not this file.

    forward(ids [B, S] in V, t [B, S] in V) -> Z [B, S, V], loss []
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple

import torch

Array = torch.Tensor
Params = dict[str, Array]
Names = tuple[str, ...]
DType = torch.dtype
Device = torch.device | str | None
Seed = int | torch.Tensor | None

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
    params: Params, at: str, X: Array, M: Array, *, seed: Seed
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
    Q = (X @ W_Q + b_Q).reshape(B, S, N_H, D_h).transpose(1, 2)
    # [B, N_H, S_k, D_h], line 16
    K = (M @ W_K + b_K).reshape(B, S_k, N_H, D_h).transpose(1, 2)
    KT = K.mT  # [B, N_H, D_h, S_k], line 17
    # [B, N_H, S_k, D_h], line 18
    V = (M @ W_V + b_V).reshape(B, S_k, N_H, D_h).transpose(1, 2)
    P = softmax(scale_mask(Q @ KT, 1 / D_h**0.5, S, S_k))  # [B, N_H, S, S_k], line 20
    AS, AS_keep = dropout(P, 0.1, seed, f"{at}.AS")  # [B, N_H, S, S_k], line 21
    O = (AS @ V).transpose(1, 2).reshape(B, S, D)  # [B, S, D], line 22
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
    db_O = dY.sum(dim=(0, 1))  # [D], dBC of line 23
    dO = dY @ W_O.T  # [B, S, D], d• of line 23
    dW_O = saved.O.reshape(-1, D).T @ dY.reshape(-1, D)  # [D, D], d• of line 23
    dO_1 = dO.reshape(B, S, N_H, D_h).transpose(1, 2)  # [B, N_H, S, D_h], dR of line 22
    dAS = dO_1 @ saved.V.mT  # [B, N_H, S, S_k], d• of line 22
    dV = saved.AS.mT @ dO_1  # [B, N_H, S_k, D_h], d• of line 22
    dP = d_dropout(dAS, saved.AS_keep, 0.1)  # [B, N_H, S, S_k], dDO of line 21
    dP_1 = d_softmax(dP, saved.P)  # [B, N_H, S, S_k], dS of line 20
    dP_2 = d_scale_mask(dP_1, 1 / D_h**0.5, S, S_k)  # [B, N_H, S, S_k], dSM of line 20
    dQ = dP_2 @ saved.KT.mT  # [B, N_H, S, D_h], d• of line 20
    dKT = saved.Q.mT @ dP_2  # [B, N_H, D_h, S_k], d• of line 20
    dV_1 = dV.transpose(1, 2).reshape(B, S_k, D)  # [B, S_k, D], dR of line 18
    db_V = dV_1.sum(dim=(0, 1))  # [D], dBC of line 18
    dW_V = saved.M.reshape(-1, D).T @ dV_1.reshape(-1, D)  # [D, D], d• of line 18
    dK = dKT.mT  # [B, N_H, S_k, D_h], dT of line 17
    dK_1 = dK.transpose(1, 2).reshape(B, S_k, D)  # [B, S_k, D], dR of line 16
    db_K = dK_1.sum(dim=(0, 1))  # [D], dBC of line 16
    dW_K = saved.M.reshape(-1, D).T @ dK_1.reshape(-1, D)  # [D, D], d• of line 16
    dQ_1 = dQ.transpose(1, 2).reshape(B, S, D)  # [B, S, D], dR of line 15
    db_Q = dQ_1.sum(dim=(0, 1))  # [D], dBC of line 15
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
    db_down = dY.sum(dim=(0, 1))  # [D], dBC of line 30
    dU = dY @ W_down.T  # [B, S, D_ff], d• of line 30
    # [D_ff, D], d• of line 30
    dW_down = saved.U.reshape(-1, D_ff).T @ dY.reshape(-1, D)
    dU_1 = d_gelu(dU, saved.U_1)  # [B, S, D_ff], dGELU of line 29
    db_up = dU_1.sum(dim=(0, 1))  # [D_ff], dBC of line 29
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


def layer(params: Params, at: str, X: Array, *, seed: Seed) -> tuple[Array, LayerSaved]:
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
    params: Params, ids: Array, t: Array, *, seed: Seed
) -> tuple[Array, Array, LMSaved]:
    """Language Model (transformer.xg, line 51).

    ids [B, S], t [B, S] -> Z [B, S, V], loss []
    """
    E, P, gamma, beta = take(params, "", "E P gamma beta")
    B, S = ids.shape
    device = ids.device
    PE_1 = torch.arange(S, device=device)  # [S], line 54
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
    dPE = dX.sum(dim=0)  # [S, D], dBC of line 56
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
    dtype: DType = torch.float32,
    device: Device = None,
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
            params[name] = torch.ones(shape, dtype=dtype, device=device)
        elif start == "zeros":
            params[name] = torch.zeros(shape, dtype=dtype, device=device)
        else:
            drawn = normal(seed, name, shape, float(start))
            params[name] = drawn.to(dtype=dtype, device=device)
    return params


@torch.no_grad()
def forward(
    params: Params, inputs: Mapping[str, Array], *, seed: Seed = None
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


@torch.no_grad()
def backward(params: Params, saved: LMSaved, d_outputs: Mapping[str, Array]) -> Params:
    """Gradients of all parameters and float inputs by name; no cotangent means zero."""
    like = next(iter({**params, **d_outputs}.values()))
    dtype, device = like.dtype, like.device
    B, S = saved.ids.shape
    V = saved.Z_1.shape[1]
    dZ = d_outputs.get("Z")
    if dZ is None:
        dZ = torch.zeros((B, S, V), dtype=dtype, device=device)
    dloss = d_outputs.get("loss")
    if dloss is None:
        dloss = torch.zeros((), dtype=dtype, device=device)
    grads: Params = {}
    d_lm(params, saved, dZ, dloss, grads)
    for name in [name for name in params if name not in grads]:
        grads[name] = torch.zeros_like(params[name])
    return grads


class Named(torch.nn.Module):
    """A module with the parameters below a path; their names may be those of its methods."""

    def __init__(self, params: Params, at: str) -> None:
        super().__init__()
        self._at, below = at, f"{at}." if at else ""
        self._names = tuple([name for name in params if name.startswith(below)])
        self._places: list[tuple[list[str], list[str]]] = []  # path, parameters there
        for name in self._names:
            *path, last = name[len(below) :].split(".")
            owner: torch.nn.Module = self
            for part in path:
                children: dict[str, Any] = owner._modules
                if part not in children:
                    children[part] = Named({}, "")
                owner = children[part]
            owner._parameters[last] = torch.nn.Parameter(params[name])
            if not self._places or self._places[-1][0] != path:
                self._places.append((path, []))
            self._places[-1][1].append(last)

    def _weights(self) -> list[Array]:
        """The parameters, one for each name, also where modules share them."""
        found: list[Array] = []
        for path, names in self._places:
            weights: dict[str, Any] = self._child(path)._parameters
            found += [weights[name] for name in names]
        return found

    def _weight(self, place: str) -> Array:
        """One parameter: as an attribute, `type` would be a method."""
        *path, last = place.split(".")
        weights: dict[str, Any] = self._child(path)._parameters
        return weights[last]

    def _child(self, path: list[str]) -> torch.nn.Module:
        """One module below this one."""
        owner: torch.nn.Module = self
        for part in path:
            children: dict[str, Any] = owner._modules
            owner = children[part]
        return owner


class LM1Saved(NamedTuple):
    """What `lm_1` keeps for its backward pass."""

    ids: Array  # [B, S]
    PE_1: Array  # [S]


def lm_1(params: Params, ids: Array) -> tuple[Array, LM1Saved]:
    """Language Model, piece 1 (transformer.xg, line 51).

    ids [B, S] -> X [B, S, D]
    """
    E, P = take(params, "", "E P")
    S = ids.shape[1]
    device = ids.device
    PE_1 = torch.arange(S, device=device)  # [S], line 54
    PE = P[PE_1]  # [S, D], line 54
    X = E[ids] + PE  # [B, S, D], lines 55-56
    return X, LM1Saved(ids, PE_1)


def d_lm_1(params: Params, saved: LM1Saved, dX: Array, grads: Params) -> None:
    """Backward pass of Language Model, piece 1 (transformer.xg, line 51)."""
    V = params["E"].shape[0]
    S_max = params["P"].shape[0]
    dPE = dX.sum(dim=0)  # [S, D], dBC of line 56
    dE = scatter_add(dX, saved.ids, V)  # [V, D], dEmb of line 55
    dP = scatter_add(dPE, saved.PE_1, S_max)  # [S_max, D], dEmb of line 54
    grads |= {
        "E": dE,
        "P": dP,
    }


class LM1Step(torch.autograd.Function):
    """`lm_1` as one step of autograd, backwards by `d_lm_1`."""

    @staticmethod
    def forward(ctx: Any, names: Names, ids: Array, *weights: Array) -> Array:
        params = dict(zip(names, weights))
        X, saved = lm_1(params, ids)
        remember(ctx, params, [ids], saved)
        return X

    @staticmethod
    def backward(ctx: Any, dX: Array) -> tuple[Array | None, ...]:
        params, inputs, saved = recall(ctx)
        grads: Params = {}
        with as_before(ctx):
            if torch.is_grad_enabled():  # create_graph=True
                *_, saved = lm_1(params, *inputs)
            d_lm_1(params, saved, dX, grads)
        return None, None, *[grads.get(name) for name in params]


class LayerStep(torch.autograd.Function):
    """`layer` as one step of autograd, backwards by `d_layer`."""

    @staticmethod
    def forward(
        ctx: Any, at: str, names: Names, seed: Seed, X: Array, *weights: Array
    ) -> Array:
        params = dict(zip(names, weights))
        Y, saved = layer(params, at, X, seed=seed)
        remember(ctx, params, [X], saved)
        ctx.at = at
        ctx.seed = seed
        return Y

    @staticmethod
    def backward(ctx: Any, dY: Array) -> tuple[Array | None, ...]:
        params, inputs, saved = recall(ctx)
        grads: Params = {}
        with as_before(ctx):
            if torch.is_grad_enabled():  # create_graph=True
                *_, saved = layer(params, ctx.at, *inputs, seed=ctx.seed)
            dX = d_layer(params, ctx.at, saved, dY, grads)
        return None, None, None, dX, *[grads.get(name) for name in params]


class Layer(Named):
    """Transformer Layer at its place in the model."""

    def forward(self, X: Array, *, seed: Seed = None) -> Array:
        return LayerStep.apply(self._at, self._names, seed, X, *self._weights())


class LM2Saved(NamedTuple):
    """What `lm_2` keeps for its backward pass."""

    Y_1: Array  # [B, S, D]
    t: Array  # [B, S]
    Y: Array  # [B, S, D]
    Y_mean: Array  # [B, S, 1]
    Y_rstd: Array  # [B, S, 1]
    Z_1: Array  # [D, V]
    Z: Array  # [B, S, V]
    loss_lse: Array  # [B, S, 1]


def lm_2(params: Params, Y_1: Array, t: Array) -> tuple[Array, Array, LM2Saved]:
    """Language Model, piece 2 (transformer.xg, line 51).

    value [B, S, D], t [B, S] -> Z [B, S, V], loss []
    """
    E, gamma, beta = take(params, "", "E gamma beta")
    B, S = Y_1.shape[:2]
    Y, Y_mean, Y_rstd = layer_norm(Y_1, gamma, beta, 1e-05)  # [B, S, D], line 59
    Z_1 = E.T  # [D, V], line 60
    Z = Y @ Z_1  # [B, S, V], line 60
    loss, loss_lse = cross_entropy(Z, t, B * S)  # [], line 61
    return Z, loss, LM2Saved(Y_1, t, Y, Y_mean, Y_rstd, Z_1, Z, loss_lse)


def d_lm_2(
    params: Params, saved: LM2Saved, dZ: Array, dloss: Array, grads: Params
) -> Array:
    """Backward pass of Language Model, piece 2 (transformer.xg, line 51)."""
    gamma = params["gamma"]
    B, S, D = saved.Y_1.shape
    V = saved.Z_1.shape[1]
    # [B, S, V], dCE of line 61
    dZ_CE = d_cross_entropy(dloss, saved.Z, saved.t, saved.loss_lse, B * S, B, S, V)
    dZ_2 = dZ + dZ_CE  # [B, S, V], sum of a fan-out of line 60
    dY = dZ_2 @ saved.Z_1.T  # [B, S, D], d• of line 60
    dE = (saved.Y.reshape(-1, D).T @ dZ_2.reshape(-1, V)).T  # [V, D], d•, dT of line 60
    # [B, S, D], dLN of line 59
    dY_1, dgamma, dbeta = d_layer_norm(dY, saved.Y_1, gamma, saved.Y_mean, saved.Y_rstd)
    grads |= {
        "E": dE,
        "gamma": dgamma,
        "beta": dbeta,
    }
    return dY_1


class LM2Step(torch.autograd.Function):
    """`lm_2` as one step of autograd, backwards by `d_lm_2`."""

    @staticmethod
    def forward(
        ctx: Any, names: Names, Y_1: Array, t: Array, *weights: Array
    ) -> tuple[Array, Array]:
        params = dict(zip(names, weights))
        Z, loss, saved = lm_2(params, Y_1, t)
        remember(ctx, params, [Y_1, t], saved, Z, loss)
        return Z, loss

    @staticmethod
    def backward(
        ctx: Any, dZ: Array | None, dloss: Array | None
    ) -> tuple[Array | None, ...]:
        dZ, dloss = arrived(ctx, dZ, dloss)
        params, inputs, saved = recall(ctx)
        grads: Params = {}
        with as_before(ctx):
            if torch.is_grad_enabled():  # create_graph=True
                *_, saved = lm_2(params, *inputs)
            dY_1 = d_lm_2(params, saved, dZ, dloss, grads)
        return None, dY_1, None, *[grads.get(name) for name in params]


class Model(Named):
    """Language Model as a module."""

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
        params = init(seed, dtype, device, V=V, D=D, S_max=S_max)
        own = {name: value for name, value in params.items() if "." not in name}
        super().__init__(own, "")
        self.layers = torch.nn.ModuleList(
            [Layer(params, f"layers.{i}") for i in range(N_L)]
        )

    def forward(self, ids: Array, t: Array, *, seed: Seed = None) -> dict[str, Array]:
        """Outputs by name; in training, dropout draws a seed if none is given."""
        if seed is None and self.training:
            seed = torch.randint(2**62, (), device=ids.device)
        X = LM1Step.apply(("E", "P"), ids, self.E, self.P)
        Z_1 = X
        for block in self.layers:
            Z_1 = block(Z_1, seed=seed)
        Z, loss = LM2Step.apply(
            ("E", "gamma", "beta"), Z_1, t, self.E, self.gamma, self.beta
        )
        return {"Z": Z, "loss": loss}


class Kept(NamedTuple):
    """What a block saved without its tensors: what it is, names of the tensors, all the rest."""

    kind: Any
    names: list[str]
    rest: dict[str, Any]


def remember(
    ctx: Any, params: Params, inputs: list[Array], saved: Any, *results: Array
) -> None:
    """Hand autograd what the backward pass needs: it frees every tensor after its use.

    Of several results some may have no cotangent: torch is not to make zeros for them.
    """
    tensors = [*params.values(), *inputs]
    ctx.names, ctx.inputs = tuple(params), len(inputs)
    ctx.kept = packed(saved, tensors)
    ctx.save_for_backward(*tensors)
    if results:
        ctx.set_materialize_grads(False)
        ctx.results = [(y.shape, y.dtype, y.device) for y in results]
    device = tensors[0].device.type if tensors else "cpu"
    enabled = torch.is_autocast_enabled(device)
    ctx.autocast = (device, torch.get_autocast_dtype(device), enabled)


def arrived(ctx: Any, *cotangents: Array | None) -> list[Array]:
    """What arrived for each result: one zero, repeated, where nothing depends on it."""
    found: list[Array] = []
    for dy, (shape, dtype, device) in zip(cotangents, ctx.results):
        if dy is None:
            dy = torch.zeros((), dtype=dtype, device=device).expand(shape)
        found.append(dy)
    return found


def as_before(ctx: Any) -> AbstractContextManager[Any]:
    """The autocast state of the forward pass, entered again where another one holds now."""
    device, dtype, enabled = ctx.autocast
    if enabled or torch.is_autocast_enabled(device):
        return torch.autocast(device, dtype, enabled)
    return nullcontext()


def recall(ctx: Any) -> tuple[Params, list[Array], Any]:
    """The parameters, the inputs and what was saved, as the forward pass had them."""
    tensors = iter(ctx.saved_tensors)
    params = dict(zip(ctx.names, tensors))
    inputs = [next(tensors) for _ in range(ctx.inputs)]
    return params, inputs, unpacked(ctx.kept, tensors)


def packed(saved: Any, tensors: list[Array]) -> Any:
    """What a block saved, its tensors moved to a list."""
    if saved is None or isinstance(saved, int):
        return saved
    if isinstance(saved, list):
        return [packed(part, tensors) for part in saved]
    names: list[str] = []
    rest: dict[str, Any] = {}
    for name, part in saved._asdict().items():
        if isinstance(part, torch.Tensor):
            names.append(name)
            tensors.append(part)
        else:
            rest[name] = part
    rest = {name: packed(part, tensors) for name, part in rest.items()}
    return Kept(saved.__class__, names, rest)


def unpacked(kept: Any, tensors: Iterator[Array]) -> Any:
    """What a block saved, its tensors back in their places."""
    if isinstance(kept, Kept):
        fields: dict[str, Any] = dict(zip(kept.names, tensors))
        for name, part in kept.rest.items():
            fields[name] = unpacked(part, tensors)
        return kept.kind(**fields)
    if isinstance(kept, list):
        return [unpacked(part, tensors) for part in kept]
    return kept


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
    part = torch.arange(-S + S_k, S_k, device=a.device)[..., None]
    visible = part >= torch.arange(S_k, device=a.device)
    return torch.where(visible, a * scale, -torch.inf)


def softmax(z: Array) -> Array:
    """Softmax over the last axis, or the one in brackets; a row that is masked
    everywhere gives zeros: p_i = exp(z_i) / Σ_j exp(z_j).
    """
    peak = z.amax(dim=-1, keepdim=True)
    e = torch.exp(z - torch.where(peak > -torch.inf, peak, 0))
    total = e.sum(dim=-1, keepdim=True)
    return e / torch.where(total > 0, total, 1)


def dropout(x: Array, p: float, seed: Seed, place: str) -> tuple[Array, Array | None]:
    """Drops numbers with probability p; `scaled` keeps the mean, `unscaled` is the
    seed's: Y = m ⊙ X / (1 - p), m = 0 or 1.
    """
    keep = keep_mask(x, p, seed, place)
    return drop(x, keep, 1 - p), keep


def d_dropout(dy: Array, keep: Array | None, p: float) -> Array:
    """Gradient of dropout: dX = m ⊙ dY / (1 - p)."""
    return drop(dy, keep, 1 - p)


def d_softmax(dp: Array, p: Array) -> Array:
    """Gradient of softmax: dZ = (dP - Σ dP ⊙ P) ⊙ P, Σ over that axis."""
    return (dp - (dp * p).sum(dim=-1, keepdim=True)) * p


def d_scale_mask(dz: Array, scale: float, S: int, S_k: int) -> Array:
    """Gradient of scale_mask: dA = α dZ, 0 where masked."""
    part = torch.arange(-S + S_k, S_k, device=dz.device)[..., None]
    visible = part >= torch.arange(S_k, device=dz.device)
    return torch.where(visible, dz * scale, 0)


def gelu(x: Array) -> Array:
    """X times the probability that a normal number is below x; `tanh` approximates it:
    Y = X ⊙ (1 + tanh(sqrt(2/π) (X + 0.044715 X³))) / 2; exact: (1 + erf(X/sqrt(2)))
    / 2.
    """
    t = torch.tanh(0.7978845608028654 * x * (1 + 0.044715 * x**2))
    return 0.5 * x * (1 + t)


def d_gelu(dy: Array, x: Array) -> Array:
    """Gradient of gelu: dX = dY ⊙ g'(X)."""
    t = torch.tanh(0.7978845608028654 * x * (1 + 0.044715 * x**2))
    d_inner = 0.7978845608028654 * (1 + 0.134145 * x**2)
    slope = 0.5 * (1 + t) + 0.5 * x * (1 - t**2) * d_inner
    return dy * slope


def layer_norm(
    x: Array, gamma: Array, beta: Array, eps: float
) -> tuple[Array, Array, Array]:
    """Normalizes the last axis, or the one in brackets, to mean 0 and variance 1, then
    scales by γ and shifts by β: Y = x̂ ⊙ γ + β, x̂ = (X - μ) / sqrt(σ² + ε).
    """
    mean = x.mean(dim=-1, keepdim=True)
    centred = x - mean
    rstd = 1 / torch.sqrt((centred**2).mean(dim=-1, keepdim=True) + eps)
    return centred * rstd * gamma + beta, mean, rstd


def d_layer_norm(
    dy: Array, x: Array, gamma: Array, mean: Array, rstd: Array
) -> tuple[Array, Array, Array]:
    """Gradient of layer_norm: dX = (dx̂ - mean(dx̂) - x̂ mean(dx̂ x̂)) / sqrt(σ² + ε)
    with dx̂ = dY ⊙ γ, dγ = Σ dY ⊙ x̂, dβ = Σ dY.
    """
    dx_hat = dy * gamma
    x_hat = (x - mean) * rstd
    part = x_hat * (dx_hat * x_hat).mean(dim=-1, keepdim=True)
    dx = rstd * (dx_hat - dx_hat.mean(dim=-1, keepdim=True) - part)
    dgamma = (dy * x_hat).sum(dim=(0, 1))
    dbeta = dy.sum(dim=(0, 1))
    return dx, dgamma, dbeta


def cross_entropy(z: Array, t: Array, count: float) -> tuple[Array, Array]:
    """Cross-entropy of the softmax of logits with integer targets, over those that
    count: loss = Σ w (log Σ_j exp(z_j) - z_t) / Σ w.
    """
    peak = z.amax(dim=-1, keepdim=True)
    shifted = z - peak
    log_total = torch.log(torch.exp(shifted).sum(dim=-1, keepdim=True))
    lse = peak + log_total
    return (log_total[..., 0] - pick(shifted, t)).sum() / count, lse


def d_cross_entropy(
    dloss: Array, z: Array, t: Array, lse: Array, count: float, B: int, S: int, V: int
) -> Array:
    """Gradient of cross_entropy: dZ = (softmax(Z) - onehot(t)) w / Σ w · dloss."""
    p = torch.exp(z - lse)
    part = dloss / count
    return p * part - place(part.expand(B, S), t, V)


def pick(x: Array, ids: Array) -> Array:
    """One element per row of the last axis."""
    return x.gather(-1, ids[..., None])[..., 0]


def place(values: Array, ids: Array, length: int) -> Array:
    """Zeros with one value per row of a new last axis, at its id."""
    rows = values.new_zeros((*ids.shape, length))
    return rows.scatter_(-1, ids[..., None], values[..., None])


def scatter_add(updates: Array, ids: Array, rows: int) -> Array:
    """Rows summed by their ids: the gradient of a table that was read by them."""
    axes = updates.shape[ids.ndim :]
    table = updates.new_zeros((rows, *axes))
    return table.index_add_(0, ids.reshape(-1), updates.reshape(ids.numel(), *axes))


def drop(x: Array, keep: Array | None, kept: float) -> Array:
    """`x` where it stays, scaled by 1/kept, else 0; `x` itself when nothing is dropped."""
    return x if keep is None else x * keep * (1 / kept)


def keep_mask(x: Array, p: float, seed: Seed, place: str) -> Array | None:
    """Which elements of `x` dropout keeps; None (all of them) without a seed."""
    if seed is None:
        return None
    drawn = random_words(random_key(seed, place, x.device), x.numel())
    return (shift_right(drawn, 40) >= round(p * 2**24)).reshape(x.shape)


def normal(seed: Seed, place: str, shape: tuple[int, ...], deviation: float) -> Array:
    """Nearly normal numbers: a sum of four uniforms of 16 bits, from integers alone."""
    drawn = random_words(random_key(seed, place), math.prod(shape))
    centred = torch.full_like(drawn, -2 * 65535)
    for lane in range(4):
        centred += shift_right(drawn, 16 * lane) & 65535
    return (centred.double() * (deviation / ((65536**2 - 1) / 3) ** 0.5)).reshape(shape)


def random_key(seed: Seed, place: str, device: Device = None) -> Array:
    """A key for the random numbers of one place: FNV-1a of its name, mix with the seed."""
    digest = 0xCBF29CE484222325
    for char in place:
        digest = (digest ^ ord(char)) * 0x100000001B3 % 2**64
    if isinstance(seed, int):
        seed = signed(seed % 2**64)
    start = torch.as_tensor(seed, dtype=torch.int64, device=device)
    return mix(mix(start) ^ signed(digest))


def random_words(key: Array, count: int) -> Array:
    """Random 64-bit words, one per element (SplitMix64): word i depends on key and i alone."""
    return words_at(key, torch.arange(count, device=key.device))


def words_at(key: Array, index: Array) -> Array:
    """The words of some elements, by their places in the whole."""
    return mix((index + 1) * signed(0x9E3779B97F4A7C15) + key)


def mix(z: Array) -> Array:
    """Every bit of a word made to depend on all of it."""
    z = (z ^ shift_right(z, 30)) * signed(0xBF58476D1CE4E5B9)
    z = (z ^ shift_right(z, 27)) * signed(0x94D049BB133111EB)
    return z ^ shift_right(z, 31)


def shift_right(z: Array, bits: int) -> Array:
    """Words shift_right to the right, zeros moving in: torch would copy the sign."""
    return z >> bits & 2 ** (64 - bits) - 1 if bits else z


def signed(word: int) -> int:
    """A 64-bit word as torch holds it."""
    return word - 2**64 if word >= 2**63 else word
