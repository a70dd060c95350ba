"""The model of `diagrams/models/transformer.xg` as one writes it by hand in NumPy, without xg."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Params = dict[str, Array]

EPS = 1e-5
GELU_SCALE = (2 / np.pi) ** 0.5


def loss_and_gradients(
    params: Params, ids: Array, targets: Array, sizes: Mapping[str, int]
) -> tuple[float, Params]:
    """Loss and gradients by the names of the diagram."""
    grads: Params = {}
    heads, layers = sizes["N_H"], sizes["N_L"]
    x = params["E"][ids] + params["P"]
    kept: list[tuple[Array, ...]] = []
    for i in range(layers):
        x, tape = _layer(params, f"layers.{i}.", x, heads)
        kept.append(tape)
    Y, x_hat, rstd = _norm(x, params["gamma"], params["beta"])
    logits = Y @ params["E"].T
    logits -= logits.max(-1, keepdims=True)
    probs = np.exp(logits)
    total = probs.sum(-1, keepdims=True)
    picked = np.take_along_axis(logits, targets[..., None], -1)
    loss = float((np.log(total) - picked).mean())

    probs /= total
    hit = np.take_along_axis(probs, targets[..., None], -1)
    np.put_along_axis(probs, targets[..., None], hit - 1, -1)
    dZ = probs / targets.size
    grads["E"] = _weights(Y, dZ).T
    dX, grads["gamma"], grads["beta"] = _norm_back(dZ @ params["E"], x_hat, rstd, params["gamma"])
    for i in reversed(range(layers)):
        dX = _layer_back(params, grads, f"layers.{i}.", kept[i], dX, heads)
    np.add.at(grads["E"], ids, dX)
    grads["P"] = dX.sum(0)
    return loss, grads


def _layer(p: Params, at: str, X: Array, heads: int) -> tuple[Array, tuple[Array, ...]]:
    S = X.shape[1]
    H, h_hat, h_rstd = _norm(X, p[at + "gamma_1"], p[at + "beta_1"])
    Q, K, V = (
        _split(H @ p[f"{at}attn.W_{name}"] + p[f"{at}attn.b_{name}"], heads) for name in "QKV"
    )
    scores = Q @ K.swapaxes(-1, -2) / Q.shape[-1] ** 0.5
    scores[..., ~np.tri(S, dtype=bool)] = -np.inf
    A = np.exp(scores - scores.max(-1, keepdims=True))
    np.divide(A, A.sum(-1, keepdims=True), out=A)
    mixed = _join(A @ V)
    M = mixed @ p[at + "attn.W_O"] + p[at + "attn.b_O"] + X
    G, g_hat, g_rstd = _norm(M, p[at + "gamma_2"], p[at + "beta_2"])
    U = G @ p[at + "ffn.W_up"] + p[at + "ffn.b_up"]
    T = np.tanh(GELU_SCALE * U * (1 + 0.044715 * U * U))
    F = 0.5 * U * (1 + T)
    Y = F @ p[at + "ffn.W_down"] + p[at + "ffn.b_down"] + M
    return Y, (H, h_hat, h_rstd, Q, K, V, A, mixed, G, g_hat, g_rstd, U, T, F)


def _layer_back(
    p: Params, grads: Params, at: str, tape: tuple[Array, ...], dY: Array, heads: int
) -> Array:
    H, h_hat, h_rstd, Q, K, V, A, mixed, G, g_hat, g_rstd, U, T, F = tape
    grads[at + "ffn.W_down"], grads[at + "ffn.b_down"] = _weights(F, dY), dY.sum((0, 1))
    dF = dY @ p[at + "ffn.W_down"].T
    inner = GELU_SCALE * (1 + 3 * 0.044715 * U * U)
    dU = dF * 0.5 * (1 + T + U * (1 - T * T) * inner)
    grads[at + "ffn.W_up"], grads[at + "ffn.b_up"] = _weights(G, dU), dU.sum((0, 1))
    dM, grads[at + "gamma_2"], grads[at + "beta_2"] = _norm_back(
        dU @ p[at + "ffn.W_up"].T, g_hat, g_rstd, p[at + "gamma_2"]
    )
    dM += dY
    grads[at + "attn.W_O"], grads[at + "attn.b_O"] = _weights(mixed, dM), dM.sum((0, 1))
    dO = _split(dM @ p[at + "attn.W_O"].T, heads)
    dA = dO @ V.swapaxes(-1, -2)
    dA = (dA - (dA * A).sum(-1, keepdims=True)) * A / Q.shape[-1] ** 0.5
    dQ, dK, dV = dA @ K, dA.swapaxes(-1, -2) @ Q, A.swapaxes(-1, -2) @ dO
    dH = np.zeros_like(H)
    for name, gradient in (("Q", dQ), ("K", dK), ("V", dV)):
        joined = _join(gradient)
        grads[f"{at}attn.W_{name}"], grads[f"{at}attn.b_{name}"] = (
            _weights(H, joined),
            joined.sum((0, 1)),
        )
        dH += joined @ p[f"{at}attn.W_{name}"].T
    dX, grads[at + "gamma_1"], grads[at + "beta_1"] = _norm_back(
        dH, h_hat, h_rstd, p[at + "gamma_1"]
    )
    return dX + dM


def _norm(x: Array, gamma: Array, beta: Array) -> tuple[Array, Array, Array]:
    centered = x - x.mean(-1, keepdims=True)
    rstd = 1 / np.sqrt((centered**2).mean(-1, keepdims=True) + EPS)
    x_hat = centered * rstd
    return x_hat * gamma + beta, x_hat, rstd


def _norm_back(dy: Array, x_hat: Array, rstd: Array, gamma: Array) -> tuple[Array, Array, Array]:
    dx_hat = dy * gamma
    mixed = (dx_hat * x_hat).mean(-1, keepdims=True)
    dx = (dx_hat - dx_hat.mean(-1, keepdims=True) - x_hat * mixed) * rstd
    return dx, (dy * x_hat).sum((0, 1)), dy.sum((0, 1))


def _weights(x: Array, dy: Array) -> Array:
    return x.reshape(-1, x.shape[-1]).T @ dy.reshape(-1, dy.shape[-1])


def _split(x: Array, heads: int) -> Array:
    B, S, D = x.shape
    return x.reshape(B, S, heads, D // heads).swapaxes(1, 2)


def _join(x: Array) -> Array:
    B, N, S, D = x.shape
    return x.swapaxes(1, 2).reshape(B, S, N * D)
