"""Multi-Layer Perceptron: forward and backward pass in JAX.

Compiled by xg 0.2.0 from mlp.xg, block MLP. Change the diagram, not this file.

    forward(X [B, S, D]) -> Y [B, S, D]
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

Array = jax.Array
Params = dict[str, Array]
DType = Any
Seed = int | Array | None
ParamTable = dict[str, tuple[tuple[int, ...], float | str]]

D = 64


def mlp(params: Params, X: Array, *, seed: Seed) -> tuple[Array, MLPSaved]:
    """Multi-Layer Perceptron: block MLP.

    X [B, S, D] -> Y [B, S, D]
    """
    gamma = params["gamma"]  # [D]
    beta = params["beta"]  # [D]
    W_up = params["W_up"]  # [D, D_ff]
    b_up = params["b_up"]  # [D_ff]
    W_down = params["W_down"]  # [D_ff, D]
    b_down = params["b_down"]  # [D]
    # X -> LN(γ, β) : H [B, S, D]
    H, H_mean, H_rstd = layer_norm(X, gamma, beta, 1e-05)  # [B, S, D]
    # -> •<=W_up -> ⊕<-BC[B, S](b_up) -> GELU : U [B, S, D_ff]
    add = H @ W_up + b_up  # [B, S, D_ff]
    U = gelu(add)  # [B, S, D_ff]
    # -> •<=W_down -> ⊕<-BC[B, S](b_down) : Z [B, S, D]
    Z = U @ W_down + b_down  # [B, S, D]
    # -> DO(p) -> ⊕<-X : Y
    dropout_1, dropout_keep = dropout(Z, 0.1, seed, "DO_1")  # [B, S, D]
    Y = dropout_1 + X  # [B, S, D]
    return Y, MLPSaved(X, H, H_mean, H_rstd, add, U, dropout_keep)


def d_mlp(params: Params, saved: MLPSaved, dY: Array, grads: Params) -> Array:
    """Backward pass of `mlp`.

    dY [B, S, D] -> dX [B, S, D], gradients of parameters in `grads`
    """
    gamma = params["gamma"]  # [D]
    W_up = params["W_up"]  # [D, D_ff]
    W_down = params["W_down"]  # [D_ff, D]
    D = saved.X.shape[2]
    D_ff = saved.add.shape[2]
    # backward of -> DO(p) -> ⊕<-X : Y
    dZ = d_dropout(dY, saved.dropout_keep, 0.1)  # [B, S, D], grad of dropout
    # backward of -> •<=W_down -> ⊕<-BC[B, S](b_down) : Z [B, S, D]
    db_down = dZ.sum(axis=(0, 1))  # [D], grad of broadcast
    dU = dZ @ W_down.T  # [B, S, D_ff], grad of matmul
    dW_down = (  # [D_ff, D], grad of matmul
        saved.U.reshape(-1, D_ff).T @ dZ.reshape(-1, D)
    )
    # backward of -> •<=W_up -> ⊕<-BC[B, S](b_up) -> GELU : U [B, S, D_ff]
    d_GELU = d_gelu(dU, saved.add)  # [B, S, D_ff], grad of gelu
    db_up = d_GELU.sum(axis=(0, 1))  # [D_ff], grad of broadcast
    dH = d_GELU @ W_up.T  # [B, S, D], grad of matmul
    dW_up = (  # [D, D_ff], grad of matmul
        saved.H.reshape(-1, D).T @ d_GELU.reshape(-1, D_ff)
    )
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
    H: Array  # [B, S, D]
    H_mean: Array  # [B, S, 1]
    H_rstd: Array  # [B, S, 1]
    add: Array  # [B, S, D_ff]
    U: Array  # [B, S, D_ff]
    dropout_keep: Array | None  # [B, S, D]


# ---- public interface ----------------------------------------------------------------


def init(seed: int = 0, dtype: DType = jnp.float32, *, D: int = D) -> Params:
    """Make the parameters, by their names in the diagram, drawn from the seed."""
    D_ff = 4 * D
    _check_float(dtype)
    params: Params = {}
    for name, (shape, start) in _param_table(D=D, D_ff=D_ff).items():
        if start == "ones":
            params[name] = jnp.ones(shape, dtype)
        elif start == "zeros":
            params[name] = jnp.zeros(shape, dtype)
        else:
            params[name] = _normal(seed, name, shape, float(start)).astype(dtype)
    return params


def forward(
    params: Params, inputs: Mapping[str, Array], *, seed: Seed = None
) -> tuple[dict[str, Array], MLPSaved]:
    """Outputs by name, and the values that `backward` needs.

    Without a seed dropout is off.
    """
    _check("inputs", inputs, {"X": 3}, params)
    B, S, D = inputs["X"].shape
    D_ff = 4 * D
    shapes = {name: shape for name, (shape, _) in _param_table(D=D, D_ff=D_ff).items()}
    _check("params", params, shapes, inputs)
    _check("inputs", inputs, {"X": (B, S, D)}, {})
    _check_floats(params, inputs, "X")
    Y, saved = mlp(params, inputs["X"], seed=seed)
    return {"Y": Y}, saved


def backward(params: Params, saved: MLPSaved, d_outputs: Mapping[str, Array]) -> Params:
    """Gradients of all parameters and float inputs by name; no cotangent means zero."""
    if not hasattr(saved, "X"):
        raise TypeError("saved should be the second result of forward, not its first")
    B, S, D = saved.X.shape
    _check("d_outputs", d_outputs, {"Y": (B, S, D)}, params)
    dtype = next(iter({**params, **d_outputs}.values())).dtype
    dY = d_outputs.get("Y")
    if dY is None:
        dY = jnp.zeros((B, S, D), dtype)
    grads: Params = {}
    dX = d_mlp(params, saved, dY, grads)
    grads["X"] = dX
    return grads


# ---- operators -----------------------------------------------------------------------


def _in_float32(rounded: int = 0) -> Callable[..., Any]:
    """Decorate an operator that adds, so that it computes half types in float32.

    A sum may exceed 65504, the largest float16. The first `rounded` results are
    rounded, or all of them. Values saved for the gradient stay float32.
    """

    def decorate(compute: Callable[..., Any]) -> Callable[..., Any]:
        def wide(*given: Any) -> Any:
            kinds = [x.dtype for x in given if _is_float(x)]
            half = kinds[0] if kinds else jnp.float32
            others = [kind for kind in kinds if kind != half]
            if half not in [jnp.float16, jnp.bfloat16] or (rounded and others):
                return compute(*given)
            results = compute(*[_converted(x, half, jnp.float32) for x in given])
            if not isinstance(results, tuple):
                return _converted(results, jnp.float32, half)
            count = rounded if rounded else len(results)
            first = [_converted(x, jnp.float32, half) for x in results[:count]]
            return (*first, *results[count:])

        return wide

    return decorate


@_in_float32(1)
def layer_norm(
    x: Array, gamma: Array, beta: Array, eps: float
) -> tuple[Array, Array, Array]:
    """Y = x̂ ⊙ γ + β, x̂ = (X - μ) / sqrt(σ² + ε)."""
    mean = x.mean(axis=-1, keepdims=True)
    centered = x - mean
    rstd = 1 / jnp.sqrt((centered**2).mean(axis=-1, keepdims=True) + eps)
    return centered * rstd * gamma + beta, mean, rstd


def gelu(x: Array) -> Array:
    """Y = X ⊙ (1 + tanh(u)) / 2, u = sqrt(2/π) (X + 0.044715 X³)."""
    t = jnp.tanh(0.7978845608028654 * x * (1 + 0.044715 * x**2))
    return 0.5 * x * (1 + t)


def dropout(x: Array, p: float, seed: Seed, place: str) -> tuple[Array, Array | None]:
    """Y = m ⊙ X / (1 - p), m = 0 or 1."""
    keep = _keep_mask(x, p, seed, place)
    return _drop(x, keep, 1 - p), keep


def d_dropout(dy: Array, keep: Array | None, p: float) -> Array:
    """Gradient of dropout: dX = m ⊙ dY / (1 - p)."""
    return _drop(dy, keep, 1 - p)


def d_gelu(dy: Array, x: Array) -> Array:
    """Gradient of gelu.

    dX = dY ⊙ (1 + t + X ⊙ (1 - t²) ⊙ u') / 2, t = tanh(u), u' = sqrt(2/π) (1 + 3 ·
    0.044715 X²).
    """
    t = jnp.tanh(0.7978845608028654 * x * (1 + 0.044715 * x**2))
    d_inner = 0.7978845608028654 * (1 + 0.134145 * x**2)
    slope = 0.5 * (1 + t) + 0.5 * x * (1 - t**2) * d_inner
    return dy * slope


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
    part = x_hat * (dx_hat * x_hat).mean(axis=-1, keepdims=True)
    dx = rstd * (dx_hat - dx_hat.mean(axis=-1, keepdims=True) - part)
    dgamma = (dy * x_hat).sum(axis=(0, 1))
    dbeta = dy.sum(axis=(0, 1))
    return dx, dgamma, dbeta


# ---- support -------------------------------------------------------------------------


def _param_table(*, D: int, D_ff: int) -> ParamTable:
    """Shape and start of every parameter: ones, zeros or a standard deviation."""
    _refuse_empty(D=D)
    return {
        "gamma": ((D,), "ones"),
        "beta": ((D,), "zeros"),
        "W_up": ((D, D_ff), D**-0.5),
        "b_up": ((D_ff,), "zeros"),
        "W_down": ((D_ff, D), D_ff**-0.5),
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


def _is_float(x: Any) -> bool:
    """Whether it is an array of floats."""
    return hasattr(x, "dtype") and jnp.issubdtype(x.dtype, jnp.floating)


def _converted(x: Any, kind: DType, to: DType) -> Any:
    """An array of one type in another; anything else as it is."""
    return x.astype(to) if hasattr(x, "dtype") and x.dtype == kind else x


def _check_floats(
    params: Mapping[str, Array],
    inputs: Mapping[str, Array],
    *names: str,
) -> None:
    """Raise TypeError for what has no floats, or others than the first array.

    Floats of NumPy count as what JAX makes of them: float64 only if it is set to that.
    """
    arrays = {**params, **{name: inputs[name] for name in names}}
    kinds = {name: jnp.result_type(array) for name, array in arrays.items()}
    first = next(iter(kinds), "")
    for name, kind in kinds.items():
        if not jnp.issubdtype(kind, jnp.floating):
            found = f"{name} should be floats, not {kind}"
            raise TypeError(f"{found}: write {name}.astype(jnp.float32)")
        if kind != kinds[first]:
            found = f"{name} should be {kinds[first]}, as {first} is, not {kind}"
            raise TypeError(f"{found}: write {name}.astype(jnp.{kinds[first]})")


def _drop(x: Array, keep: Array | None, kept: float) -> Array:
    """`x` scaled by 1 / kept where it is kept, else 0; `x` itself without a mask."""
    return x if keep is None else x * keep * (1 / kept)


def _keep_mask(x: Array, p: float, seed: Seed, place: str) -> Array | None:
    """Draw which elements of `x` dropout keeps; None, all of them, without a seed."""
    if seed is None:
        return None
    drawn = _random_words(_word(seed), _word(_digest(place)), x.shape)
    return drawn.high >> 8 >= round(p * 2**24)


def _check_float(dtype: DType) -> None:
    """Raise TypeError for another type than one of floats."""
    if not jnp.issubdtype(dtype, jnp.floating):
        raise TypeError(f"dtype should be a type of floats, not {dtype}")


def _normal(
    seed: int | Array,
    place: str,
    shape: tuple[int, ...],
    deviation: float,
) -> Array:
    """Nearly normal numbers: a sum of four uniforms of 16 bits, from integers alone."""
    drawn = _random_words(_word(seed), _word(_digest(place)), shape)
    centered = _sums(drawn) - 2 * 65535
    return centered * (deviation / ((65536**2 - 1) / 3) ** 0.5)


class _Word(NamedTuple):
    """A 64-bit word in two halves: JAX has no wider integers by default."""

    high: Array
    low: Array


def _digest(place: str) -> int:
    """FNV-1a of the name of a place."""
    found = 0xCBF29CE484222325
    for byte in place.encode():
        found = (found ^ byte) * 0x100000001B3 % 2**64
    return found


def _word(number: int | Array) -> _Word:
    """A whole number modulo 2**64, or the two halves that an array holds."""
    if isinstance(number, int):
        high, low = number >> 32 & 0xFFFFFFFF, number & 0xFFFFFFFF
        return _Word(jnp.uint32(high), jnp.uint32(low))
    if not hasattr(number, "ndim"):
        raise TypeError(f"seed should be a whole number, not {str(number)!r}")
    if number.ndim:
        return _Word(number[0], number[1])
    return _Word((number >> 31 >> 1).astype(jnp.uint32), number.astype(jnp.uint32))


@jax.jit(static_argnames="shape")
def _random_words(seed: _Word, place: _Word, shape: tuple[int, ...]) -> _Word:
    """Random words (SplitMix64), each from its index, the seed and a place alone."""
    start = _mix(seed)
    key = _mix(_Word(start.high ^ place.high, start.low ^ place.low))
    index = _word(0)
    for axis, length in enumerate(shape):
        axes = [-1, *[1] * (len(shape) - 1 - axis)]
        along = _Word(jnp.uint32(0), jnp.arange(length, dtype=jnp.uint32).reshape(axes))
        index = _plus(_times(index, _word(length)), along)
    return _mix(_plus(_times(_plus(index, _word(1)), _word(0x9E3779B97F4A7C15)), key))


@jax.jit
def _sums(words: _Word) -> Array:
    """The sums of the four numbers of 16 bits that words are made of."""
    halves = [(half >> 16) + (half & 65535) for half in words]
    return (halves[0] + halves[1]).astype(jnp.int32)


def _mix(z: _Word) -> _Word:
    """Every bit of a word made to depend on all of it."""
    z = _times(_shifted(z, 30), _word(0xBF58476D1CE4E5B9))
    z = _times(_shifted(z, 27), _word(0x94D049BB133111EB))
    return _shifted(z, 31)


def _shifted(z: _Word, bits: int) -> _Word:
    """``z ^ z >> bits``."""
    return _Word(z.high ^ z.high >> bits, z.low ^ (z.low >> bits | z.high << 32 - bits))


def _plus(a: _Word, b: _Word) -> _Word:
    """The sum of two words, modulo 2**64."""
    low = a.low + b.low
    return _Word(a.high + b.high + (low < a.low).astype(jnp.uint32), low)


def _times(a: _Word, b: _Word) -> _Word:
    """The product of two words, modulo 2**64, from products that fit in 32 bits."""
    a_top, b_top = a.low >> 16, b.low >> 16
    a_end, b_end = a.low & 65535, b.low & 65535
    middle = a_top * b_end + (a_end * b_end >> 16)
    other = b_top * a_end + (middle & 65535)
    high = a_top * b_top + (middle >> 16) + (other >> 16)
    return _Word(high + a.high * b.low + a.low * b.high, a.low * b.low)
