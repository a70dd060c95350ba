"""Language Model: step in torch.

Compiled by xg 0.2.0 from transformer.xg, block LM. Change the diagram, not this file.

    step(ids [B, S] in V) -> Z [B, S, V]
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch

Array = torch.Tensor
Params = dict[str, Array]
DType = torch.dtype
ParamTable = dict[str, tuple[tuple[int, ...], float | str]]
CacheTable = dict[str, tuple[tuple[int, ...], str]]

N_H = 4
N_L = 4


def mlp(params: Params, at: str, X: Array) -> Array:
    """Block MLP.

    X [B, S, D] -> Y [B, S, D]
    """
    W_up = params[f"{at}.W_up"]  # [D, D_ff]
    b_up = params[f"{at}.b_up"]  # [D_ff]
    W_down = params[f"{at}.W_down"]  # [D_ff, D]
    b_down = params[f"{at}.b_down"]  # [D]
    # X -> •<=W_up -> ⊕<-BC(b_up) -> act : U [B, S, D_ff]
    U = gelu(X @ W_up + b_up)  # [B, S, D_ff]
    # -> •<=W_down -> ⊕<-BC(b_down) : Y
    Y = U @ W_down + b_down  # [B, S, D]
    return Y


def attention(
    params: Params, cache: Params, kept: Params, at: str, X: Array, M: Array
) -> Array:
    """Multi-Head Attention: block Attention.

    X [B, S, D], M [B, S, D] -> Y [B, S, D]
    """
    W_Q = params[f"{at}.W_Q"]  # [D, D]
    W_K = params[f"{at}.W_K"]  # [D, D]
    W_V = params[f"{at}.W_V"]  # [D, D]
    W_O = params[f"{at}.W_O"]  # [D, D]
    b_Q = params[f"{at}.b_Q"]  # [D]
    b_K = params[f"{at}.b_K"]  # [D]
    b_V = params[f"{at}.b_V"]  # [D]
    b_O = params[f"{at}.b_O"]  # [D]
    K_past = cache[f"{at}.K"]
    V_past = cache[f"{at}.V"]
    B, S, D = X.shape
    N_H = K_past.shape[1]
    T = K_past.shape[2]
    D_h = K_past.shape[3]
    # X -> •<=W_Q -> ⊕<-BC(b_Q) -> R -> RoPE if pos = rope : Q [B, N_H, S, D_h]
    Q = (X @ W_Q + b_Q).reshape(B, S, N_H, D_h).transpose(1, 2)  # [B, N_H, S, D_h]
    # M -> •<=W_K -> ⊕<-BC(b_K) -> R -> RoPE if pos = rope : K [B, N_H, S_k, D_h]
    K_new = (M @ W_K + b_K).reshape(B, S, N_H, D_h).transpose(1, 2)  # [B, N_H, S, D_h]
    K = torch.cat([K_past, K_new], dim=-2)  # [B, N_H, S + T, D_h]
    # -> T : KT [B, N_H, D_h, S_k]
    KT = K.mT  # [B, N_H, D_h, S + T]
    # M -> •<=W_V -> ⊕<-BC(b_V) -> R : V [B, N_H, S_k, D_h]
    V_new = (M @ W_V + b_V).reshape(B, S, N_H, D_h).transpose(1, 2)  # [B, N_H, S, D_h]
    V = torch.cat([V_past, V_new], dim=-2)  # [B, N_H, S + T, D_h]
    # Q -> •<=KT -> SM(1/sqrt(D_h), mask) -> S : P [B, N_H, S, S_k]
    P = softmax(scale_mask(Q @ KT, 1 / D_h**0.5, T, S))  # [B, N_H, S, S + T]
    # -> •<=V -> R : O [B, S, D]
    O = (P @ V).transpose(1, 2).reshape(B, S, D)  # [B, S, D]
    # -> •<=W_O -> ⊕<-BC(b_O) : Y
    Y = O @ W_O + b_O  # [B, S, D]
    kept[f"{at}.K"] = K
    kept[f"{at}.V"] = V
    return Y


def layer(params: Params, cache: Params, kept: Params, at: str, X: Array) -> Array:
    """Transformer Layer: block Layer.

    X [B, S, D] -> Y [B, S, D]
    """
    gamma_1 = params[f"{at}.gamma_1"]  # [D]
    gamma_2 = params[f"{at}.gamma_2"]  # [D]
    beta_1 = params[f"{at}.beta_1"]  # [D]
    beta_2 = params[f"{at}.beta_2"]  # [D]
    # X -> LN(γ_1, β_1) if norm = pre : H [B, S, D]
    H = layer_norm(X, gamma_1, beta_1, 1e-05)  # [B, S, D]
    # H, H -> Attention(mask, p) as attn -> DO(p) -> ⊕<-X
    attn_out = attention(params, cache, kept, f"{at}.attn", H, H)  # [B, S, D]
    M = attn_out + X  # [B, S, D]
    # M -> LN(γ_2, β_2) if norm = pre
    layer_norm_1 = layer_norm(M, gamma_2, beta_2, 1e-05)  # [B, S, D]
    # -> ffn -> DO(p) -> ⊕<-M
    ffn_out = mlp(params, f"{at}.ffn", layer_norm_1)  # [B, S, D]
    Y = ffn_out + M  # [B, S, D]
    return Y


def lm(params: Params, cache: Params, kept: Params, ids: Array) -> Array:
    """Language Model: block LM.

    ids [B, S] -> Z [B, S, V]
    """
    E = params["E"]  # [V, D]
    P = params["P"]  # [S_max, D]
    gamma = params["gamma"]  # [D]
    beta = params["beta"]  # [D]
    ids_past = cache["ids"]
    S = ids.shape[1]
    T = ids_past.shape[1]
    device = ids.device
    # block LM 'Language Model' (ids [B, S] in V, t [B, S] in V) -> Z [B, S, V], loss
    #       [] {
    ids_all = torch.cat([ids_past, ids], dim=-1)  # [B, S + T]
    # range(S) -> Emb(P) : PE [S, D]
    PE = P[torch.arange(T, S + T, device=device)]  # [S, D]
    # ids -> Emb(E)
    # -> ⊕<-BC(PE) if pos = learned
    X = E[ids] + PE  # [B, S, D]
    # -> N_L × Layer(causal) as layers
    layers_out = X
    for i in range(N_L):
        layers_out = layer(params, cache, kept, f"layers.{i}", layers_out)  # [B, S, D]
    # -> LN(γ, β) if norm = pre : Y [B, S, D]
    Y = layer_norm(layers_out, gamma, beta, 1e-05)  # [B, S, D]
    # -> •<=T(E) if head = tied -> •<=W_lm if head = own : Z
    Z = Y @ E.T  # [B, S, V]
    kept["ids"] = ids_all
    return Z


# ---- public interface ----------------------------------------------------------------


def empty_cache(params: Params, *, B: int = 1) -> Params:
    """Make an empty cache: no positions yet, for B texts."""
    like = next(iter(params.values()), torch.zeros(0))
    D = params["E"].shape[1]
    D_h = D // N_H
    table = _cache_table(B=B, T=0, N_L=N_L, N_H=N_H, D_h=D_h)
    cache: Params = {}
    for name, (shape, kind) in table.items():
        dtype = torch.int64 if kind == "int" else like.dtype
        cache[name] = torch.zeros(shape, dtype=dtype, device=like.device)
    return cache


@torch.no_grad()
def step(
    params: Params, cache: Params, inputs: Mapping[str, Array]
) -> tuple[dict[str, Array], Params]:
    """Outputs at the new positions by name, and the cache with these positions."""
    _check("inputs", inputs, {"ids": 2}, params)
    _check("cache", cache, {}, {}, *(cache or ()))
    B, S = inputs["ids"].shape
    T = _array(cache, "ids", 2).shape[1]
    V, D = _array(params, "E", 2).shape
    S_max = _array(params, "P", 2).shape[0]
    D_ff = 4 * D
    D_h = D // N_H
    table = _param_table(V=V, D=D, S_max=S_max, N_L=N_L, D_ff=D_ff)
    shapes = {name: shape for name, (shape, _) in table.items()}
    _check("params", params, shapes, inputs, *params)
    _check("inputs", inputs, {"ids": (B, S)}, {})
    cached = _cache_table(B=B, T=T, N_L=N_L, N_H=N_H, D_h=D_h)
    shapes = {name: shape for name, (shape, _) in cached.items()}
    _check("cache", cache, shapes, {})
    _check("params", params, {}, {}, *table)
    inputs = dict(inputs)
    inputs["ids"] = _integers(inputs["ids"], "ids", V)
    if S + T > S_max:
        excess = f"S + T = {S + T} is more than S_max = {S_max}"
        raise ValueError(f"{excess}: the table must have a row for every position")
    if D % N_H:
        raise ValueError(f"D_h = D/N_H = {D}/{N_H} is not a whole number")
    floats = {name: cache[name] for name, (_, kind) in cached.items() if kind != "int"}
    _check_floats({**params, **floats}, inputs)
    cache = {
        name: _integers(cache[name], name, None) if kind == "int" else cache[name]
        for name, (_, kind) in cached.items()
    }
    kept: Params = {}
    Z = lm(params, cache, kept, inputs["ids"])
    return {"Z": Z}, kept


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


def gelu(x: Array) -> Array:
    """Y = X ⊙ (1 + tanh(u)) / 2, u = sqrt(2/π) (X + 0.044715 X³)."""
    t = torch.tanh(0.7978845608028654 * x * (1 + 0.044715 * x**2))
    return 0.5 * x * (1 + t)


def scale_mask(a: Array, scale: float, T: int, S: int) -> Array:
    """z_ij = α a_ij if j <= i + S_k - S, else -inf."""
    part = torch.arange(T, S + T, device=a.device)[..., None]
    visible = part >= torch.arange(S + T, device=a.device)
    return torch.where(visible, a * scale, -torch.inf)


@_in_float32(1)
def softmax(z: Array) -> Array:
    """p_i = exp(z_i) / Σ_j exp(z_j)."""
    peak = z.amax(dim=-1, keepdim=True)
    e = torch.exp(z - torch.where(peak > -torch.inf, peak, 0))
    total = e.sum(dim=-1, keepdim=True)
    return e / torch.where(total == 0, 1, total)


@_in_float32(1)
def layer_norm(x: Array, gamma: Array, beta: Array, eps: float) -> Array:
    """Y = x̂ ⊙ γ + β, x̂ = (X - μ) / sqrt(σ² + ε)."""
    mean = x.mean(dim=-1, keepdim=True)
    centred = x - mean
    rstd = 1 / torch.sqrt((centred**2).mean(dim=-1, keepdim=True) + eps)
    return centred * rstd * gamma + beta


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


def _cache_table(*, B: int, T: int, N_L: int, N_H: int, D_h: int) -> CacheTable:
    """Shape and kind of every array of a cache of T past positions."""
    table: CacheTable = {
        "ids": ((B, T), "int"),
    }
    for i in range(N_L):
        table |= {
            f"layers.{i}.attn.K": ((B, N_H, T, D_h), "float"),
            f"layers.{i}.attn.V": ((B, N_H, T, D_h), "float"),
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
