"""Multi-Head Attention: forward and backward pass in NumPy.

Compiled by xg 0.2.0 from mha.xg, block MHA. Change the diagram, not this file.

    forward(X [B, S, D]) -> Y [B, S, D]
"""

from __future__ import annotations

import math
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


def mha(params: Params, X: Array, *, seed: int | None) -> tuple[Array, MHASaved]:
    """Multi-Head Attention: block MHA.

    X [B, S, D] -> Y [B, S, D]
    """
    gamma = params["gamma"]  # [D]
    beta = params["beta"]  # [D]
    W_Q = params["W_Q"]  # [D, D]
    W_K = params["W_K"]  # [D, D]
    W_V = params["W_V"]  # [D, D]
    W_O = params["W_O"]  # [D, D]
    b_Q = params["b_Q"]  # [D]
    b_K = params["b_K"]  # [D]
    b_V = params["b_V"]  # [D]
    b_O = params["b_O"]  # [D]
    B, S, D = X.shape
    D_h = D // N_H
    # X -> LN(γ, β) : H [B, S, D]
    H, H_mean, H_rstd = layer_norm(X, gamma, beta, 1e-05)  # [B, S, D]
    # H -> •<=W_Q -> ⊕<-BC(b_Q) -> R : Q [B, N_H, S, D_h]
    Q = (H @ W_Q + b_Q).reshape(B, S, N_H, D_h).swapaxes(1, 2)  # [B, N_H, S, D_h]
    # H -> •<=W_K -> ⊕<-BC(b_K) -> R : K [B, N_H, S, D_h]
    K = (H @ W_K + b_K).reshape(B, S, N_H, D_h).swapaxes(1, 2)  # [B, N_H, S, D_h]
    # -> T : KT [B, N_H, D_h, S]
    KT = K.swapaxes(-1, -2)  # [B, N_H, D_h, S]
    # H -> •<=W_V -> ⊕<-BC(b_V) -> R : V [B, N_H, S, D_h]
    V = (H @ W_V + b_V).reshape(B, S, N_H, D_h).swapaxes(1, 2)  # [B, N_H, S, D_h]
    # Q -> •<=KT : A [B, N_H, S, S]
    A = Q @ KT  # [B, N_H, S, S]
    # -> SM(1/sqrt(D_h), causal) : Z [B, N_H, S, S]
    Z = scale_mask(A, 1 / D_h**0.5, S)  # [B, N_H, S, S]
    # -> S : P [B, N_H, S, S]
    P = softmax(Z)  # [B, N_H, S, S]
    # -> DO(p) : AS [B, N_H, S, S]
    AS, AS_keep = dropout(P, 0.1, seed, "AS")  # [B, N_H, S, S]
    # -> •<=V : O [B, N_H, S, D_h]
    O = AS @ V  # [B, N_H, S, D_h]
    # -> R : C [B, S, D]
    C = O.swapaxes(1, 2).reshape(B, S, D)  # [B, S, D]
    # -> •<=W_O -> ⊕<-BC(b_O) : A_out [B, S, D]
    A_out = C @ W_O + b_O  # [B, S, D]
    # -> DO(p) -> ⊕<-X : Y
    dropout_1, dropout_keep = dropout(A_out, 0.1, seed, "DO_1")  # [B, S, D]
    Y = dropout_1 + X  # [B, S, D]
    return Y, MHASaved(X, H, H_mean, H_rstd, Q, KT, V, P, AS, AS_keep, C, dropout_keep)


def d_mha(params: Params, saved: MHASaved, dY: Array, grads: Params) -> Array:
    """Backward pass of `mha`.

    dY [B, S, D] -> dX [B, S, D], gradients of parameters in `grads`
    """
    gamma = params["gamma"]  # [D]
    W_Q = params["W_Q"]  # [D, D]
    W_K = params["W_K"]  # [D, D]
    W_V = params["W_V"]  # [D, D]
    W_O = params["W_O"]  # [D, D]
    B, S, D = saved.X.shape
    N_H = saved.Q.shape[1]
    D_h = saved.Q.shape[3]
    # backward of -> DO(p) -> ⊕<-X : Y
    dA_out = d_dropout(dY, saved.dropout_keep, 0.1)  # [B, S, D], grad of dropout
    # backward of -> •<=W_O -> ⊕<-BC(b_O) : A_out [B, S, D]
    db_O = dA_out.sum(axis=(0, 1))  # [D], grad of broadcast
    dC = dA_out @ W_O.T  # [B, S, D], grad of matmul
    dW_O = saved.C.reshape(-1, D).T @ dA_out.reshape(-1, D)  # [D, D], grad of matmul
    # backward of -> R : C [B, S, D]
    dO = dC.reshape(B, S, N_H, D_h).swapaxes(1, 2)  # [B, N_H, S, D_h], grad of reshape
    # backward of -> •<=V : O [B, N_H, S, D_h]
    dAS = dO @ saved.V.swapaxes(-1, -2)  # [B, N_H, S, S], grad of matmul
    dV = saved.AS.swapaxes(-1, -2) @ dO  # [B, N_H, S, D_h], grad of matmul
    # backward of -> DO(p) : AS [B, N_H, S, S]
    dP = d_dropout(dAS, saved.AS_keep, 0.1)  # [B, N_H, S, S], grad of dropout
    # backward of -> S : P [B, N_H, S, S]
    dZ = d_softmax(dP, saved.P)  # [B, N_H, S, S], grad of softmax
    # backward of -> SM(1/sqrt(D_h), causal) : Z [B, N_H, S, S]
    dA = d_scale_mask(dZ, 1 / D_h**0.5, S)  # [B, N_H, S, S], grad of scale_mask
    # backward of Q -> •<=KT : A [B, N_H, S, S]
    dQ = dA @ saved.KT.swapaxes(-1, -2)  # [B, N_H, S, D_h], grad of matmul
    dKT = saved.Q.swapaxes(-1, -2) @ dA  # [B, N_H, D_h, S], grad of matmul
    # backward of H -> •<=W_V -> ⊕<-BC(b_V) -> R : V [B, N_H, S, D_h]
    d_R_V = dV.swapaxes(1, 2).reshape(B, S, D)  # [B, S, D], grad of reshape
    db_V = d_R_V.sum(axis=(0, 1))  # [D], grad of broadcast
    dW_V = saved.H.reshape(-1, D).T @ d_R_V.reshape(-1, D)  # [D, D], grad of matmul
    # backward of -> T : KT [B, N_H, D_h, S]
    dK = dKT.swapaxes(-1, -2)  # [B, N_H, S, D_h], grad of transpose
    # backward of H -> •<=W_K -> ⊕<-BC(b_K) -> R : K [B, N_H, S, D_h]
    d_R_K = dK.swapaxes(1, 2).reshape(B, S, D)  # [B, S, D], grad of reshape
    db_K = d_R_K.sum(axis=(0, 1))  # [D], grad of broadcast
    dW_K = saved.H.reshape(-1, D).T @ d_R_K.reshape(-1, D)  # [D, D], grad of matmul
    # backward of H -> •<=W_Q -> ⊕<-BC(b_Q) -> R : Q [B, N_H, S, D_h]
    d_R_Q = dQ.swapaxes(1, 2).reshape(B, S, D)  # [B, S, D], grad of reshape
    db_Q = d_R_Q.sum(axis=(0, 1))  # [D], grad of broadcast
    dW_Q = saved.H.reshape(-1, D).T @ d_R_Q.reshape(-1, D)  # [D, D], grad of matmul
    # backward of H -> •<=W_V -> ⊕<-BC(b_V) -> R : V [B, N_H, S, D_h]
    # backward of H -> •<=W_K -> ⊕<-BC(b_K) -> R : K [B, N_H, S, D_h]
    dH = (  # [B, S, D], grad of matmul, sum over uses
        d_R_V @ W_V.T + d_R_K @ W_K.T + d_R_Q @ W_Q.T
    )
    # backward of X -> LN(γ, β) : H [B, S, D]
    dX_LN, dgamma, dbeta = d_layer_norm(  # [B, S, D], grad of layer_norm
        dH, saved.X, gamma, saved.H_mean, saved.H_rstd
    )
    dX = dY + dX_LN  # [B, S, D], sum over uses
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


# ---- saved values --------------------------------------------------------------------


class MHASaved(NamedTuple):
    """Values of `mha` that `d_mha` needs."""

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
    dropout_keep: Array | None  # [B, S, D]


# ---- public interface ----------------------------------------------------------------


def _in_float32(compute: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate a pass, so that it computes half types in float32, then rounds.

    NumPy adds float16 numbers in float16, where 2048 + 1 is 2048.
    """

    @wraps(compute)
    def wide(*given: Any, **words: Any) -> Any:
        dicts = [each for each in given if isinstance(each, dict)]
        kinds = [x.dtype for each in dicts for x in each.values() if _is_float(x)]
        half = kinds[0] if kinds else np.dtype(np.float32)
        if half.itemsize != 2 or kinds != [half] * len(kinds):
            return compute(*given, **words)
        results = compute(*[_with_floats(each, np.float32) for each in given], **words)
        if isinstance(results, dict):
            return _with_floats(results, half)
        return tuple([_with_floats(each, half) for each in results])

    return wide


def init(seed: int = 0, dtype: DType = np.float32, *, D: int = D) -> Params:
    """Make the parameters, by their names in the diagram, drawn from the seed."""
    if D % N_H:
        raise ValueError(f"D_h = D/N_H = {D}/{N_H} is not a whole number")
    _check_float(dtype)
    params: Params = {}
    for name, (shape, start) in _param_table(D=D).items():
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
) -> tuple[dict[str, Array], MHASaved]:
    """Outputs by name, and the values that `backward` needs.

    Without a seed dropout is off.
    """
    _check("inputs", inputs, {"X": 3}, params)
    B, S, D = inputs["X"].shape
    shapes = {name: shape for name, (shape, _) in _param_table(D=D).items()}
    _check("params", params, shapes, inputs)
    _check("inputs", inputs, {"X": (B, S, D)}, {})
    _check_floats(params, inputs, "X")
    if S < 1:
        raise ValueError(f"S = {S}: S (softmax) needs at least one position")
    if D % N_H:
        raise ValueError(f"D_h = D/N_H = {D}/{N_H} is not a whole number")
    Y, saved = mha(params, inputs["X"], seed=seed)
    return {"Y": Y}, saved


@_in_float32
def backward(params: Params, saved: MHASaved, d_outputs: Mapping[str, Array]) -> Params:
    """Gradients of all parameters and float inputs by name; no cotangent means zero."""
    if not hasattr(saved, "X"):
        raise TypeError("saved should be the second result of forward, not its first")
    B, S, D = saved.X.shape
    _check("d_outputs", d_outputs, {"Y": (B, S, D)}, params)
    dtype = next(iter({**params, **d_outputs}.values())).dtype
    dY = d_outputs.get("Y")
    if dY is None:
        dY = np.zeros((B, S, D), dtype)
    grads: Params = {}
    dX = d_mha(params, saved, dY, grads)
    grads["X"] = dX
    return grads


# ---- operators -----------------------------------------------------------------------


def layer_norm(
    x: Array, gamma: Array, beta: Array, eps: float
) -> tuple[Array, Array, Array]:
    """Y = x̂ ⊙ γ + β, x̂ = (X - μ) / sqrt(σ² + ε)."""
    mean = x.mean(axis=-1, keepdims=True)
    centered = x - mean
    rstd = 1 / np.sqrt((centered**2).mean(axis=-1, keepdims=True) + eps)
    return centered * rstd * gamma + beta, mean, rstd


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


def dropout(
    x: Array, p: float, seed: int | None, place: str
) -> tuple[Array, Array | None]:
    """Y = m ⊙ X / (1 - p), m = 0 or 1."""
    keep = _keep_mask(x, p, seed, place)
    return _drop(x, keep, 1 - p), keep


def d_dropout(dy: Array, keep: Array | None, p: float) -> Array:
    """Gradient of dropout: dX = m ⊙ dY / (1 - p)."""
    return _drop(dy, keep, 1 - p)


def d_softmax(dp: Array, p: Array) -> Array:
    """Gradient of softmax: dZ = (dP - Σ dP ⊙ P) ⊙ P, Σ over the last axis."""
    return (dp - (dp * p).sum(axis=-1, keepdims=True)) * p


def d_scale_mask(dz: Array, scale: float, S: int) -> Array:
    """Gradient of scale_mask: da_ij = α dz_ij if j <= i + S_k - S, else 0."""
    visible = np.arange(S)[..., None] >= np.arange(S)
    return np.where(visible, dz * scale, 0)


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


# ---- support -------------------------------------------------------------------------


def _param_table(*, D: int) -> ParamTable:
    """Shape and start of every parameter: ones, zeros or a standard deviation."""
    _refuse_empty(D=D)
    return {
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


def _is_float(x: Any) -> bool:
    """Whether it is an array or a number of a type of floats."""
    return isinstance(x, np.ndarray | np.generic) and x.dtype.kind not in "iub"


def _with_floats(arrays: Any, kind: DType) -> Any:
    """Convert the floats among arrays by name to a type; leave all else as it is."""
    if not isinstance(arrays, dict):
        return arrays
    return {n: x.astype(kind) if _is_float(x) else x for n, x in arrays.items()}


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


def _drop(x: Array, keep: Array | None, kept: float) -> Array:
    """`x` scaled by 1 / kept where it is kept, else 0; `x` itself without a mask."""
    return x if keep is None else x * keep * (1 / kept)


def _keep_mask(x: Array, p: float, seed: int | None, place: str) -> Array | None:
    """Draw which elements of `x` dropout keeps; None, all of them, without a seed."""
    if seed is None:
        return None
    drawn = _words_at(_random_key(seed, place), np.arange(x.size, dtype=np.uint64))
    return (drawn >> np.uint64(40) >= np.uint64(round(p * 2**24))).reshape(x.shape)


def _check_float(dtype: DType) -> None:
    """Raise TypeError for another type than one of floats."""
    if np.dtype(dtype).kind not in "fV":
        raise TypeError(f"dtype should be a type of floats, not {np.dtype(dtype)}")


def _normal(seed: int, place: str, shape: tuple[int, ...], deviation: float) -> Array:
    """Nearly normal numbers, from integers alone: sums of four uniforms of 16 bits."""
    index = np.arange(math.prod(shape), dtype=np.uint64)
    drawn = _words_at(_random_key(seed, place), index)
    centered = np.full(drawn.shape, -2 * 65535, np.int64)
    for lane in range(4):
        centered += (drawn >> np.uint64(16 * lane) & np.uint64(65535)).astype(np.int64)
    return (centered * (deviation / ((65536**2 - 1) / 3) ** 0.5)).reshape(shape)


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


def _words_at(key: int, index: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Random 64-bit words (SplitMix64): each depends on the key and its index alone."""
    z = (index + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    z += np.uint64(key)
    z = (z ^ z >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ z >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
    return z ^ z >> np.uint64(31)
