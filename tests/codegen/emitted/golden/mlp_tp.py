"""Multi-Layer Perceptron: forward and backward pass in NumPy.

Compiled by xg 0.2.0 from mlp.xg, block MLP. Change the diagram, not this file.
Every rank of the mesh N_T = 2 runs it, on its shards.

    forward(X [B, S, D]) -> Y [B, S, D]
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from xg_runtime.ranks import (
    Cuts,
    Mesh,
    all_reduce,
    check_mesh,
    gather_shards,
    global_shape,
    local_shard,
    local_shards,
)

Array = NDArray[Any]
Params = dict[str, Array]
DType = Any
ParamTable = dict[str, tuple[tuple[int, ...], float | str]]

D = 64
N_T = 2


def mlp(params: Params, X: Array, *, seed: int | None) -> tuple[Array, MLPSaved]:
    """Multi-Layer Perceptron: block MLP.

    X [B, S, D] -> Y [B, S, D]
    """
    gamma = params["gamma"]  # [D]
    beta = params["beta"]  # [D]
    W_up = params["W_up"]  # [D, D_ff/N_T]
    b_up = params["b_up"]  # [D_ff/N_T]
    W_down = params["W_down"]  # [D_ff/N_T, D]
    b_down = params["b_down"]  # [D]
    # X -> LN(γ, β) : H [B, S, D]
    H, H_mean, H_rstd = layer_norm(X, gamma, beta, 1e-05)  # [B, S, D]
    # -> •<=W_up -> ⊕<-BC[B, S](b_up) -> GELU : U [B, S, D_ff]
    add = H @ W_up + b_up  # [B, S, D_ff/N_T]
    U = gelu(add)  # [B, S, D_ff/N_T]
    # -> •<=W_down -> ⊕<-BC[B, S](b_down) : Z [B, S, D]
    Z = all_reduce(U @ W_down, "N_T") + b_down  # [B, S, D]
    # -> DO(p) -> ⊕<-X : Y
    dropout_1, dropout_keep = dropout(Z, 0.1, seed, "DO_1")  # [B, S, D]
    Y = dropout_1 + X  # [B, S, D]
    return Y, MLPSaved(X, H_mean, H_rstd, H, add, U, dropout_keep)


def d_mlp(params: Params, saved: MLPSaved, dY: Array, grads: Params) -> Array:
    """Backward pass of `mlp`.

    dY [B, S, D] -> dX [B, S, D], gradients of parameters in `grads`
    """
    gamma = params["gamma"]  # [D]
    W_up = params["W_up"]  # [D, D_ff/N_T]
    W_down = params["W_down"]  # [D_ff/N_T, D]
    D = saved.X.shape[2]
    D_ff = saved.add.shape[2] * N_T
    # backward of -> DO(p) -> ⊕<-X : Y
    dZ = d_dropout(dY, saved.dropout_keep, 0.1)  # [B, S, D], grad of dropout
    # backward of -> •<=W_down -> ⊕<-BC[B, S](b_down) : Z [B, S, D]
    db_down = dZ.sum(axis=(0, 1))  # [D], grad of broadcast
    dU = dZ @ W_down.T  # [B, S, D_ff/N_T], grad of matmul
    dW_down = (  # [D_ff/N_T, D], grad of matmul
        saved.U.reshape(-1, D_ff // N_T).T @ dZ.reshape(-1, D)
    )
    # backward of -> •<=W_up -> ⊕<-BC[B, S](b_up) -> GELU : U [B, S, D_ff]
    d_GELU = d_gelu(dU, saved.add)  # [B, S, D_ff/N_T], grad of gelu
    db_up = d_GELU.sum(axis=(0, 1))  # [D_ff/N_T], grad of broadcast
    dH_i = d_GELU @ W_up.T  # [B, S, D], grad of matmul
    dW_up = (  # [D, D_ff/N_T], grad of matmul
        saved.H.reshape(-1, D).T @ d_GELU.reshape(-1, D_ff // N_T)
    )
    dH = all_reduce(dH_i, "N_T")  # [B, S, D], all_reduce
    # backward of X -> LN(γ, β) : H [B, S, D]
    dX_LN, dgamma, dbeta = d_layer_norm(  # [B, S, D], grad of layer_norm
        dH, saved.X, gamma, saved.H_mean, saved.H_rstd
    )
    dX = dY + dX_LN  # [B, S, D], sum over uses
    grads |= {
        "gamma": dgamma,
        "beta": dbeta,
        "W_up": dW_up,
        "b_up": db_up,
        "W_down": dW_down,
        "b_down": db_down,
    }
    return dX


# ---- saved values --------------------------------------------------------------------


class MLPSaved(NamedTuple):
    """Values of `mlp` that `d_mlp` needs."""

    X: Array  # [B, S, D]
    H_mean: Array  # [B, S, 1]
    H_rstd: Array  # [B, S, 1]
    H: Array  # [B, S, D]
    add: Array  # [B, S, D_ff/N_T]
    U: Array  # [B, S, D_ff/N_T]
    dropout_keep: Array | None  # [B, S, D]


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


def init(seed: int = 0, dtype: DType = np.float32, *, D: int = D) -> Params:
    """Make the parameters, by their names in the diagram, drawn from the seed."""
    check_mesh({"N_T": 2})
    D_ff = 4 * D
    if D_ff % N_T:
        raise ValueError(f"D_ff/N_T = {D_ff}/{N_T} is not a whole number")
    _check_float(dtype)
    params: Params = {}
    where = cuts()
    for name, (shape, start) in _param_table(D=D, D_ff=D_ff, N_T=N_T).items():
        if start == "ones":
            params[name] = np.ones(shape, dtype)
        elif start == "zeros":
            params[name] = np.zeros(shape, dtype)
        else:
            cut = where.get(name, ())
            whole = _normal(seed, name, global_shape(shape, cut), float(start))
            params[name] = local_shard(whole, cut).astype(dtype)
    return params


@_in_float32
def forward(
    params: Params, inputs: Mapping[str, Array], *, seed: int | None = None
) -> tuple[dict[str, Array], MLPSaved]:
    """Outputs by name, and the values that `backward` needs.

    Without a seed dropout is off.
    """
    check_mesh({"N_T": 2})
    _check("inputs", inputs, {"X": 3}, params)
    B, S, D = inputs["X"].shape
    D_ff = 4 * D
    table = _param_table(D=D, D_ff=D_ff, N_T=N_T)
    shapes = {name: shape for name, (shape, _) in table.items()}
    _check("params", params, shapes, inputs)
    _check("inputs", inputs, {"X": (B, S, D)}, {})
    _check_floats(params, inputs, "X")
    Y, saved = mlp(params, inputs["X"], seed=seed)
    return {"Y": Y}, saved


@_in_float32
def backward(params: Params, saved: MLPSaved, d_outputs: Mapping[str, Array]) -> Params:
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
    dX = d_mlp(params, saved, dY, grads)
    grads["X"] = dX
    return grads


def cuts() -> dict[str, Cuts]:
    """Axes of parameters, inputs and outputs, each with the mesh axis that cuts it."""
    return {
        "W_up": ((-1, "N_T"),),
        "b_up": ((-1, "N_T"),),
        "W_down": ((-2, "N_T"),),
    }


def shard(params: Params, mesh: Mesh) -> Params:
    """Cut whole parameters: returns the shards of the rank that calls it."""
    with mesh:
        return local_shards(params, cuts())


def gather(params: Params, mesh: Mesh) -> Params:
    """Put the shards of all ranks together: returns whole parameters."""
    with mesh:
        return gather_shards(params, cuts())


# ---- operators -----------------------------------------------------------------------


def layer_norm(
    x: Array, gamma: Array, beta: Array, eps: float
) -> tuple[Array, Array, Array]:
    """Y = x̂ ⊙ γ + β, x̂ = (X - μ) / sqrt(σ² + ε)."""
    mean = x.mean(axis=-1, keepdims=True)
    centred = x - mean
    rstd = 1 / np.sqrt((centred**2).mean(axis=-1, keepdims=True) + eps)
    return centred * rstd * gamma + beta, mean, rstd


def gelu(x: Array) -> Array:
    """Y = X ⊙ (1 + tanh(u)) / 2, u = sqrt(2/π) (X + 0.044715 X³)."""
    t = np.tanh(0.7978845608028654 * x * (1 + 0.044715 * x**2))
    return 0.5 * x * (1 + t)


def dropout(
    x: Array, p: float, seed: int | None, place: str
) -> tuple[Array, Array | None]:
    """Y = m ⊙ X / (1 - p), m = 0 or 1."""
    keep = _keep_mask(x.shape, p, seed, place)
    return _drop(x, keep, 1 - p), keep


def d_dropout(dy: Array, keep: Array | None, p: float) -> Array:
    """Gradient of dropout: dX = m ⊙ dY / (1 - p)."""
    return _drop(dy, keep, 1 - p)


def d_gelu(dy: Array, x: Array) -> Array:
    """Gradient of gelu.

    dX = dY ⊙ (1 + t + X ⊙ (1 - t²) ⊙ u') / 2, t = tanh(u), u' = sqrt(2/π) (1 + 3 ·
    0.044715 X²).
    """
    t = np.tanh(0.7978845608028654 * x * (1 + 0.044715 * x**2))
    d_inner = 0.7978845608028654 * (1 + 0.134145 * x**2)
    slope = 0.5 * (1 + t) + 0.5 * x * (1 - t**2) * d_inner
    return dy * slope


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


def _param_table(*, D: int, D_ff: int, N_T: int) -> ParamTable:
    """Shape and start of every parameter: ones, zeros or a standard deviation."""
    _refuse_empty(D=D)
    return {
        "gamma": ((D,), "ones"),
        "beta": ((D,), "zeros"),
        "W_up": ((D, D_ff // N_T), D**-0.5),
        "b_up": ((D_ff // N_T,), "zeros"),
        "W_down": ((D_ff // N_T, D), D_ff**-0.5),
        "b_down": ((D,), "zeros"),
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
