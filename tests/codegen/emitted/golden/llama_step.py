"""Llama: step in NumPy.

Compiled by xg 0.2.0 from llama.xg, block Llama. Change the diagram, not this file.

    step(ids [B, S] in V) -> Z [B, S, V]
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Params = dict[str, Array]
DType = Any
ParamTable = dict[str, tuple[tuple[int, ...], float | str]]
CacheTable = dict[str, tuple[tuple[int, ...], str]]

D_ff = 11008
N_H = 32
N_KV = 8
N_L = 32


def gqa(params: Params, cache: Params, kept: Params, at: str, X: Array) -> Array:
    """Grouped-Query Attention: block GQA.

    X [B, S, D] -> Y [B, S, D]
    """
    W_Q = params[f"{at}.W_Q"]  # [D, D]
    W_K = params[f"{at}.W_K"]  # [D, N_KV*D_h]
    W_V = params[f"{at}.W_V"]  # [D, N_KV*D_h]
    W_O = params[f"{at}.W_O"]  # [D, D]
    K_past = cache[f"{at}.K"]
    V_past = cache[f"{at}.V"]
    B, S, D = X.shape
    N_KV = K_past.shape[1]
    T = K_past.shape[2]
    D_h = K_past.shape[3]
    # X -> •<=W_Q -> ⊕<-BC(b_Q) if bias = QKV | QKVO -> R -> RMS(g_Q, eps) if norm =
    #       QK
    reshape = (X @ W_Q).reshape(B, S, N_H, D_h).swapaxes(1, 2)  # [B, N_H, S, D_h]
    # -> RoPE(base) if turns = plain
    Q = offset_rope(reshape, D_h, T, S)  # [B, N_H, S, D_h]
    # X -> •<=W_K -> ⊕<-BC(b_K) if bias = QKV | QKVO -> R -> RMS(g_K, eps) if norm =
    #       QK
    reshape_2 = (X @ W_K).reshape(B, S, N_KV, D_h).swapaxes(1, 2)  # [B, N_KV, S, D_h]
    # -> RoPE(base) if turns = plain
    K_new = offset_rope(reshape_2, D_h, T, S)  # [B, N_KV, S, D_h]
    K = np.concatenate([K_past, K_new], axis=-2)  # [B, N_KV, S + T, D_h]
    # X -> •<=W_V -> ⊕<-BC(b_V) if bias = QKV | QKVO -> R : V [B, N_KV, S, D_h]
    V_new = (X @ W_V).reshape(B, S, N_KV, D_h).swapaxes(1, 2)  # [B, N_KV, S, D_h]
    V = np.concatenate([V_past, V_new], axis=-2)  # [B, N_KV, S + T, D_h]
    # K -> BC[b, n, s, d -> b, (n, g=N_H/N_KV), s, d] -> T : KT [B, N_H, D_h, S]
    broadcast_part = np.broadcast_to(K[:, :, None], (B, N_KV, N_H // N_KV, S + T, D_h))
    KT = (  # [B, N_H, D_h, S + T]
        broadcast_part.reshape(B, N_H, S + T, D_h).swapaxes(-1, -2)
    )
    # V -> BC[b, n, s, d -> b, (n, g=N_H/N_KV), s, d] : VG [B, N_H, S, D_h]
    broadcast_part_2 = np.broadcast_to(
        V[:, :, None], (B, N_KV, N_H // N_KV, S + T, D_h)
    )
    VG = broadcast_part_2.reshape(B, N_H, S + T, D_h)  # [B, N_H, S + T, D_h]
    # Q -> •<=KT -> SM(1/sqrt(D_h), causal) if turns = plain | slowed
    # -> SM(a^2/sqrt(D_h), causal) if turns = yarn -> Near(S_w) if window = near -> S
    #       : P [B, N_H, S, S]
    P = softmax(scale_mask(Q @ KT, 1 / D_h**0.5, T, S))  # [B, N_H, S, S + T]
    # -> •<=VG -> R : O [B, S, N_H*D_h]
    O = (P @ VG).swapaxes(1, 2).reshape(B, S, D)  # [B, S, D]
    # -> •<=W_O -> ⊕<-BC(b_O) if bias = QKVO : Y
    Y = O @ W_O  # [B, S, D]
    kept[f"{at}.K"] = K
    kept[f"{at}.V"] = V
    return Y


def layer(params: Params, cache: Params, kept: Params, at: str, X: Array) -> Array:
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
    attn_out = gqa(params, cache, kept, f"{at}.attn", N)  # [B, S, D]
    M = attn_out + X  # [B, S, D]
    # -> RMS(g_2, eps) : H [B, S, D]
    H = rms(M, g_2, 1e-06)  # [B, S, D]
    # -> •<=W_gate -> SwiGLU<-(H -> •<=W_up) : U [B, S, D_ff]
    U = swiglu(H @ W_gate, H @ W_up)  # [B, S, D_ff]
    # -> •<=W_down -> ⊕<-M : Y
    Y = U @ W_down + M  # [B, S, D]
    return Y


def llama(params: Params, cache: Params, kept: Params, ids: Array) -> Array:
    """Block Llama.

    ids [B, S] -> Z [B, S, V]
    """
    E = params["E"]  # [V, D]
    g = params["g"]  # [D]
    W_lm = params["W_lm"]  # [D, V]
    ids_past = cache["ids"]
    # block Llama(ids [B, S] in V, t [B, S] in V; base = 10000, eps = 1e-6,
    ids_all = np.concatenate([ids_past, ids], axis=-1)  # [B, S + T]
    # ids -> Emb(E) -> N_L × Layer(base, eps, factor, low, high, trained, slow, fast,
    #       a) as layers -> RMS(g, eps) : Y [B, S, D]
    embedding = E[ids]  # [B, S, D]
    layers_out = embedding
    for i in range(N_L):
        layers_out = layer(params, cache, kept, f"layers.{i}", layers_out)  # [B, S, D]
    Y = rms(layers_out, g, 1e-06)  # [B, S, D]
    # -> •<=W_lm if head = own -> •<=T(E) if head = tied : Z
    Z = Y @ W_lm  # [B, S, V]
    kept["ids"] = ids_all
    return Z


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


def empty_cache(params: Params, *, B: int = 1) -> Params:
    """Make an empty cache: no positions yet, for B texts."""
    dtype = next(iter(params.values()), np.zeros(0)).dtype
    D = params["E"].shape[1]
    D_h = D // N_H
    table = _cache_table(B=B, T=0, N_L=N_L, N_KV=N_KV, D_h=D_h)
    cache: Params = {}
    for name, (shape, kind) in table.items():
        cache[name] = np.zeros(shape, np.int64 if kind == "int" else dtype)
    return cache


@_in_float32
def step(
    params: Params, cache: Params, inputs: Mapping[str, Array]
) -> tuple[dict[str, Array], Params]:
    """Outputs at the new positions by name, and the cache with these positions."""
    _check("inputs", inputs, {"ids": 2}, params)
    _check("cache", cache, {}, {}, *(cache or ()))
    B, S = inputs["ids"].shape
    T = _array(cache, "ids", 2).shape[1]
    V, D = _array(params, "E", 2).shape
    D_h = D // N_H
    table = _param_table(V=V, D=D, N_L=N_L, D_ff=D_ff, N_H=N_H, N_KV=N_KV)
    shapes = {name: shape for name, (shape, _) in table.items()}
    _check("params", params, shapes, inputs, *params)
    _check("inputs", inputs, {"ids": (B, S)}, {})
    cached = _cache_table(B=B, T=T, N_L=N_L, N_KV=N_KV, D_h=D_h)
    shapes = {name: shape for name, (shape, _) in cached.items()}
    _check("cache", cache, shapes, {})
    _check("params", params, {}, {}, *table)
    inputs = dict(inputs)
    inputs["ids"] = _integers(inputs["ids"], "ids", V)
    if D % (2 * N_H):
        raise ValueError(f"D_h/2 = {D}/{2 * N_H} is not a whole number")
    floats = {name: cache[name] for name, (_, kind) in cached.items() if kind != "int"}
    _check_floats({**params, **floats}, inputs)
    cache = {
        name: _integers(cache[name], name, None) if kind == "int" else cache[name]
        for name, (_, kind) in cached.items()
    }
    kept: Params = {}
    Z = llama(params, cache, kept, inputs["ids"])
    return {"Z": Z}, kept


# ---- operators -----------------------------------------------------------------------


def offset_rope(x: Array, D_h: int, T: int, S: int) -> Array:
    """Turns pairs of columns by their given position s.

    (y_a, y_b) = (x_a cos φ - x_b sin φ, x_b cos φ + x_a sin φ), φ = s / base^(2i/D_h);
    pair i is columns i and i + D_h/2.
    """
    a = x[..., : D_h // 2]
    speed = np.exp(np.arange(D_h // 2) * (-18.420680743952367 / D_h))
    angle = np.arange(T, S + T)[..., None] * speed
    c = np.cos(angle).astype(x.dtype)
    b = x[..., D_h // 2 :]
    s = np.sin(angle).astype(x.dtype)
    turned_a = a * c - b * s
    turned_b = b * c + a * s
    return np.concatenate([turned_a, turned_b], axis=-1)


def scale_mask(a: Array, scale: float, T: int, S: int) -> Array:
    """z_ij = α a_ij if j <= i + S_k - S, else -inf."""
    visible = np.arange(T, S + T)[..., None] >= np.arange(S + T)
    return np.where(visible, a * scale, -np.inf)


def softmax(z: Array) -> Array:
    """p_i = exp(z_i) / Σ_j exp(z_j)."""
    peak = z.max(axis=-1, keepdims=True)
    e = np.exp(z - np.where(peak > -np.inf, peak, 0))
    total = e.sum(axis=-1, keepdims=True)
    return e / np.where(total == 0, 1, total)


def rms(x: Array, g: Array, eps: float) -> Array:
    """op RMS(x [.., D]; g [D], eps = 1e-6) = x / sqrt(mean[D](x^2) + eps) * g."""
    return x / np.sqrt((x**2).mean(axis=-1, keepdims=True) + eps) * g


def swiglu(g: Array, u: Array) -> Array:
    """U times the SiLU of the gate g: Y = G ⊙ σ(G) ⊙ U, σ the sigmoid."""
    positive = g >= 0
    e = np.exp(np.where(positive, -g, g))
    return g * (np.where(positive, 1, e) / (1 + e)) * u


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


def _cache_table(*, B: int, T: int, N_L: int, N_KV: int, D_h: int) -> CacheTable:
    """Shape and kind of every array of a cache of T past positions."""
    table: CacheTable = {
        "ids": ((B, T), "int"),
    }
    for i in range(N_L):
        table |= {
            f"layers.{i}.attn.K": ((B, N_KV, T, D_h), "float"),
            f"layers.{i}.attn.V": ((B, N_KV, T, D_h), "float"),
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
