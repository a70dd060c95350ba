"""A generated module written by hand: embedding, dropout, linear, ReLU, linear, cross-entropy.

    block Bigram(ids [B, S] in V, t [B, S] in V) -> Z [B, S, V], loss []

V = 256 by default, D = 16. It has the shape of generated modules.
"""

from typing import Any, TypedDict

import numpy as np
from numpy.typing import DTypeLike, NDArray

Array = NDArray[Any]
V = 256
D = 16


class Saved(TypedDict):
    ids: Array
    t: Array
    X: Array
    mask: Array
    H: Array
    U: Array
    P: Array


def init(seed: int = 0, dtype: DTypeLike = np.float32) -> dict[str, Array]:
    draw = np.random.default_rng(seed)
    return {
        "E": (0.1 * draw.standard_normal((V, D))).astype(dtype),
        "W": (0.2 * draw.standard_normal((D, D))).astype(dtype),
        "b": np.zeros(D, dtype),
        "W_out": (0.1 * draw.standard_normal((D, V))).astype(dtype),
        "b_out": np.zeros(V, dtype),
    }


def forward(
    params: dict[str, Array], inputs: dict[str, Array], *, seed: int | None = None
) -> tuple[dict[str, Array], Saved]:
    ids, t = inputs["ids"], inputs["t"]
    E = params["E"][ids]
    mask = np.ones_like(E)
    if seed is not None:
        mask = (np.random.default_rng(seed).random(E.shape) >= 0.1) / np.asarray(0.9, E.dtype)
        mask = mask.astype(E.dtype)
    X = E * mask
    H = X @ params["W"] + params["b"]
    U = np.maximum(H, 0)
    Z = U @ params["W_out"] + params["b_out"]
    shifted = Z - Z.max(-1, keepdims=True)
    log_sum = np.log(np.exp(shifted).sum(-1, keepdims=True))
    P = np.exp(shifted - log_sum)
    loss = -np.take_along_axis(shifted - log_sum, t[..., None], -1).mean()
    saved: Saved = {"ids": ids, "t": t, "X": X, "mask": mask, "H": H, "U": U, "P": P}
    return {"Z": Z, "loss": np.asarray(loss)}, saved


def backward(
    params: dict[str, Array], saved: Saved, d_outputs: dict[str, Array]
) -> dict[str, Array]:
    dZ = saved["P"].copy()
    at = saved["t"][..., None]
    np.put_along_axis(dZ, at, np.take_along_axis(dZ, at, -1) - 1, -1)
    dZ *= d_outputs["loss"] / saved["t"].size
    if "Z" in d_outputs:
        dZ += d_outputs["Z"]
    dH = (dZ @ params["W_out"].T) * (saved["H"] > 0)
    dE = np.zeros_like(params["E"])
    np.add.at(dE, saved["ids"], (dH @ params["W"].T) * saved["mask"])
    return {
        "E": dE,
        "W": np.einsum("bsi,bsj->ij", saved["X"], dH),
        "b": dH.sum((0, 1)),
        "W_out": np.einsum("bsi,bsj->ij", saved["U"], dZ),
        "b_out": dZ.sum((0, 1)),
    }
