"""Multi-Head Attention: forward and backward pass in torch.

Compiled by xg 0.2.0 from mha.xg, block MHA. Change the diagram, not this file.

    forward(X [B, S, D]) -> Y [B, S, D]
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple

import torch

Array = torch.Tensor
Params = dict[str, Array]
DType = torch.dtype
Device = torch.device | str | None
Seed = int | torch.Tensor | None
ParamTable = dict[str, tuple[tuple[int, ...], float | str]]

# A large tensor, freed at once: from now on glibc keeps the memory of tensors that are
# freed. Else it would give it back to the system and get it again, page by page, in
# every step on a CPU.
torch.empty(2**23 - 2**11, device="cpu")

D = 64
N_H = 4


def mha(params: Params, X: Array, *, seed: Seed) -> tuple[Array, MHASaved]:
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
    Q = linear(H, W_Q, b_Q).reshape(B, S, N_H, D_h).transpose(1, 2)  # [B, N_H, S, D_h]
    # H -> •<=W_K -> ⊕<-BC(b_K) -> R : K [B, N_H, S, D_h]
    K = linear(H, W_K, b_K).reshape(B, S, N_H, D_h).transpose(1, 2)  # [B, N_H, S, D_h]
    # H -> •<=W_V -> ⊕<-BC(b_V) -> R : V [B, N_H, S, D_h]
    V = linear(H, W_V, b_V).reshape(B, S, N_H, D_h).transpose(1, 2)  # [B, N_H, S, D_h]
    # -> T : KT [B, N_H, D_h, S]
    # Q -> •<=KT : A [B, N_H, S, S]
    # -> SM(1/sqrt(D_h), causal) : Z [B, N_H, S, S]
    # -> S : P [B, N_H, S, S]
    # -> DO(p) : AS [B, N_H, S, S]
    # -> •<=V : O [B, N_H, S, D_h]
    O, O_lse, O_keep = (  # [B, N_H, S, D_h], fuses KT, A, Z, P, AS
        attention_with_dropout(
            Q, K, V, None, 1 / D_h**0.5, 0.1, "causal", "scaled", seed, "AS"
        )
    )
    # -> R : C [B, S, D]
    C = O.transpose(1, 2).reshape(B, S, D)  # [B, S, D]
    # -> •<=W_O -> ⊕<-BC(b_O) : A_out [B, S, D]
    A_out = linear(C, W_O, b_O)  # [B, S, D]
    # -> DO(p) -> ⊕<-X : Y
    dropout_1, dropout_keep = dropout(A_out, 0.1, seed, "DO_1")  # [B, S, D]
    Y = dropout_1 + X  # [B, S, D]
    return Y, MHASaved(X, H, H_mean, H_rstd, Q, K, V, O, O_lse, O_keep, C, dropout_keep)


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
    del saved.dropout_keep
    # backward of -> •<=W_O -> ⊕<-BC(b_O) : A_out [B, S, D]
    dC = product_with_transpose(dA_out, W_O)  # [B, S, D], grad of linear
    dW_O = product_over_rows(saved.C, dA_out)  # [D, D], grad of linear
    del saved.C
    db_O = dA_out.sum(dim=(0, 1))  # [D], grad of linear
    # backward of -> R : C [B, S, D]
    dO = dC.reshape(B, S, N_H, D_h).transpose(1, 2)  # [B, N_H, S, D_h], grad of reshape
    # backward of -> T : KT [B, N_H, D_h, S]
    # backward of Q -> •<=KT : A [B, N_H, S, S]
    # backward of -> SM(1/sqrt(D_h), causal) : Z [B, N_H, S, S]
    # backward of -> S : P [B, N_H, S, S]
    # backward of -> DO(p) : AS [B, N_H, S, S]
    # backward of -> •<=V : O [B, N_H, S, D_h]
    dQ, dK, dV = d_attention_with_dropout(  # [B, N_H, S, D_h], grad of attention
        dO,
        saved.Q,
        saved.K,
        saved.V,
        None,
        saved.O,
        saved.O_lse,
        saved.O_keep,
        1 / D_h**0.5,
        0.1,
        "causal",
        "scaled",
    )
    del saved.Q, saved.K, saved.V, saved.O, saved.O_lse, saved.O_keep
    # backward of H -> •<=W_V -> ⊕<-BC(b_V) -> R : V [B, N_H, S, D_h]
    d_R_V = dV.transpose(1, 2).reshape(B, S, D)  # [B, S, D], grad of reshape
    dH_Linear_3 = product_with_transpose(d_R_V, W_V)  # [B, S, D], grad of linear
    dW_V = product_over_rows(saved.H, d_R_V)  # [D, D], grad of linear
    db_V = d_R_V.sum(dim=(0, 1))  # [D], grad of linear
    # backward of H -> •<=W_K -> ⊕<-BC(b_K) -> R : K [B, N_H, S, D_h]
    d_R_K = dK.transpose(1, 2).reshape(B, S, D)  # [B, S, D], grad of reshape
    dH_Linear_2 = product_with_transpose(d_R_K, W_K)  # [B, S, D], grad of linear
    dW_K = product_over_rows(saved.H, d_R_K)  # [D, D], grad of linear
    db_K = d_R_K.sum(dim=(0, 1))  # [D], grad of linear
    # backward of H -> •<=W_Q -> ⊕<-BC(b_Q) -> R : Q [B, N_H, S, D_h]
    d_R_Q = dQ.transpose(1, 2).reshape(B, S, D)  # [B, S, D], grad of reshape
    dH_Linear_1 = product_with_transpose(d_R_Q, W_Q)  # [B, S, D], grad of linear
    dW_Q = product_over_rows(saved.H, d_R_Q)  # [D, D], grad of linear
    del saved.H
    db_Q = d_R_Q.sum(dim=(0, 1))  # [D], grad of linear
    dH_sum = add_to_first(dH_Linear_3, dH_Linear_2)  # [B, S, D], sum over uses
    dH = add_to_first(dH_sum, dH_Linear_1)  # [B, S, D], sum over uses
    # backward of X -> LN(γ, β) : H [B, S, D]
    dX_LN, dgamma, dbeta = d_layer_norm(  # [B, S, D], grad of layer_norm
        dH, saved.X, gamma, saved.H_mean, saved.H_rstd
    )
    del saved.X, saved.H_mean, saved.H_rstd
    dX = add_to_second(dY, dX_LN)  # [B, S, D], sum over uses
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


class MHASaved:
    """Values of `mha` that `d_mha` needs."""

    _fields = (
        "X",
        "H",
        "H_mean",
        "H_rstd",
        "Q",
        "K",
        "V",
        "O",
        "O_lse",
        "O_keep",
        "C",
        "dropout_keep",
    )

    def __init__(
        self,
        X: Array,
        H: Array,
        H_mean: Array,
        H_rstd: Array,
        Q: Array,
        K: Array,
        V: Array,
        O: Array,
        O_lse: Array,
        O_keep: Array | None,
        C: Array,
        dropout_keep: Array | None,
    ) -> None:
        self.X = X  # [B, S, D]
        self.H = H  # [B, S, D]
        self.H_mean = H_mean  # [B, S, 1]
        self.H_rstd = H_rstd  # [B, S, 1]
        self.Q = Q  # [B, N_H, S, D_h]
        self.K = K  # [B, N_H, S, D_h]
        self.V = V  # [B, N_H, S, D_h]
        self.O = O  # [B, N_H, S, D_h]
        self.O_lse = O_lse  # [B, N_H, S, 1]
        self.O_keep = O_keep  # [B, N_H, S, S]
        self.C = C  # [B, S, D]
        self.dropout_keep = dropout_keep  # [B, S, D]


# ---- public interface ----------------------------------------------------------------


def init(
    seed: int = 0, dtype: DType = torch.float32, device: Device = None, *, D: int = D
) -> Params:
    """Make the parameters, by their names in the diagram, drawn from the seed."""
    if D % N_H:
        raise ValueError(f"D_h = D/N_H = {D}/{N_H} is not a whole number")
    _check_float(dtype)
    params: Params = {}
    for name, (shape, start) in _param_table(D=D).items():
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
        raise ValueError(f"S = {S}: Attention (attention) needs at least one position")
    if D % N_H:
        raise ValueError(f"D_h = D/N_H = {D}/{N_H} is not a whole number")
    Y, saved = mha(params, inputs["X"], seed=seed)
    return {"Y": Y}, saved


def backward(params: Params, saved: MHASaved, d_outputs: Mapping[str, Array]) -> Params:
    """Gradients of all parameters and float inputs by name; no cotangent means zero."""
    if not hasattr(saved, "X"):
        raise TypeError("saved should be the second result of forward, not its first")
    saved = _copy(saved)  # alone it keeps what the caller does not
    with torch.no_grad():
        return _gradients(params, saved, d_outputs)


def _gradients(
    params: Params, saved: MHASaved, d_outputs: Mapping[str, Array]
) -> Params:
    """The gradients of `backward`; frees the fields of `saved` that it has read."""
    B, S, D = saved.X.shape
    _check("d_outputs", d_outputs, {"Y": (B, S, D)}, params)
    like = next(iter({**params, **d_outputs}.values()))
    dtype, device = like.dtype, like.device
    dY = d_outputs.get("Y")
    if dY is None:
        dY = torch.zeros((), dtype=dtype, device=device).expand((B, S, D))
    grads: Params = {}
    dX = d_mha(params, saved, dY, grads)
    grads["X"] = dX
    return grads


class Model(torch.nn.Module):
    """Multi-Head Attention with its parameters."""

    def __init__(
        self,
        seed: int = 0,
        dtype: DType = torch.float32,
        device: Device = None,
        *,
        D: int = D,
    ) -> None:
        super().__init__()
        params = init(seed, dtype, device, D=D)
        self.gamma = torch.nn.Parameter(params["gamma"])
        self.beta = torch.nn.Parameter(params["beta"])
        self.W_Q = torch.nn.Parameter(params["W_Q"])
        self.W_K = torch.nn.Parameter(params["W_K"])
        self.W_V = torch.nn.Parameter(params["W_V"])
        self.W_O = torch.nn.Parameter(params["W_O"])
        self.b_Q = torch.nn.Parameter(params["b_Q"])
        self.b_K = torch.nn.Parameter(params["b_K"])
        self.b_V = torch.nn.Parameter(params["b_V"])
        self.b_O = torch.nn.Parameter(params["b_O"])

    def forward(self, X: Array, *, seed: Seed = None) -> dict[str, Array]:
        """Outputs by name; in training, dropout draws a seed if none is given."""
        inputs = {"X": X}
        D = self.gamma.shape[0]
        B, S = _array(inputs, "X", 3).shape[:2]
        _check("arrays", inputs, {"X": (B, S, D)}, {})
        _check_floats({"gamma": self.gamma}, inputs, "X")
        if S < 1:
            raise ValueError(
                f"S = {S}: Attention (attention) needs at least one position"
            )
        if seed is None and self.training:
            seed = torch.randint(2**62, (), device=X.device)
        Y = MHAStep.apply(
            ("gamma", "beta", "W_Q", "W_K", "W_V", "W_O", "b_Q", "b_K", "b_V", "b_O"),
            seed,
            X,
            self.gamma,
            self.beta,
            self.W_Q,
            self.W_K,
            self.W_V,
            self.W_O,
            self.b_Q,
            self.b_K,
            self.b_V,
            self.b_O,
        )
        return {"Y": Y}

    def extra_repr(self) -> str:
        return _shapes(self)


# ---- steps of autograd ---------------------------------------------------------------


class MHAStep(torch.autograd.Function):
    """`mha` and `d_mha` as one step of autograd."""

    @staticmethod
    def forward(
        ctx: Any, names: tuple[str, ...], seed: Seed, X: Array, *weights: Array
    ) -> Array:
        params = dict(zip(names, weights, strict=True))
        Y, saved = mha(params, X, seed=seed)
        _remember(ctx, params, [], saved)
        ctx.seed = seed
        return Y

    @staticmethod
    def backward(ctx: Any, dY: Array) -> tuple[Array | None, ...]:
        params, _, saved = _recall(ctx)
        grads: Params = {}
        with _as_before(ctx):
            if torch.is_grad_enabled():  # create_graph=True
                raise RuntimeError(
                    "create_graph=True: no second derivative of layer_norm, linear, "
                    "attention, add in --kernels"
                )
            dX = d_mha(params, saved, dY, grads)
        return None, None, dX, *[grads.get(name) for name in params]


# ---- operators -----------------------------------------------------------------------


def layer_norm(
    x: Array, gamma: Array, beta: Array, eps: float
) -> tuple[Array, Array, Array]:
    """Layer normalization: Y = x̂ ⊙ γ + β, x̂ = (X - μ) / sqrt(σ² + ε).

    Its mean and 1 / sqrt(σ² + ε) are given too.
    """
    if x.dtype != gamma.dtype:
        x, gamma, beta = _widened(x, gamma, beta)
    return torch.native_layer_norm(x, x.shape[-1:], gamma, beta, eps)


def linear(x: Array, w: Array, b: Array) -> Array:
    """X W + b as one product of matrices."""
    if _is_row(x, w):
        return _row_product(x, w).add_(b)
    if _is_large(x, w):
        return torch.ops.mkldnn._linear_pointwise(x, w.T, b, "none", [], "")
    return torch.nn.functional.linear(x, w.T, b)


def attention_with_dropout(
    q: Array,
    k: Array,
    v: Array,
    m: Array | None,
    scale: float,
    p: float,
    mask: str,
    scaling: str,
    seed: Seed,
    place: str,
) -> tuple[Array, Array, Array | None]:
    """Attention whose weights are dropped with probability p, and the mask of that."""
    keep = None if seed is None else _keep_mask(_pairs(q, k), p, seed, place)
    y, lse = _attend_kept(q, k, v, m, keep, scale, p, mask, scaling)
    return y, lse, keep


def dropout(x: Array, p: float, seed: Seed, place: str) -> tuple[Array, Array | None]:
    """Y = m ⊙ X / (1 - p), m = 0 or 1."""
    keep = _keep_mask(x, p, seed, place)
    return _drop(x, keep, 1 - p), keep


def d_dropout(dy: Array, keep: Array | None, p: float) -> Array:
    """Gradient of dropout: dX = m ⊙ dY / (1 - p)."""
    return _drop(dy, keep, 1 - p)


def product_with_transpose(a: Array, b: Array) -> Array:
    """A B⊤."""
    if _is_row(a, b.T):
        return _row_product(a, b.T)
    if _is_large(a, b):
        return torch.ops.mkldnn._linear_pointwise(a, b, None, "none", [], "")
    if _is_uneven(a):
        return _filled(a) @ _filled(b).T
    return a @ b.T


def product_over_rows(a: Array, b: Array) -> Array:
    """A⊤ B, where the axes in front count as rows: the gradient of a matrix."""
    i, j = a.shape[-1], b.shape[-1]
    a = _filled(a) if _is_uneven(a) else a
    b = _filled(b) if _is_uneven(b) else b
    y = a.reshape(-1, a.shape[-1]).T @ b.reshape(-1, b.shape[-1])
    return y if y.shape == (i, j) else y[:i, :j]


def d_attention_with_dropout(
    dy: Array,
    q: Array,
    k: Array,
    v: Array,
    m: Array | None,
    y: Array,
    lse: Array,
    keep: Array | None,
    scale: float,
    p: float,
    mask: str,
    scaling: str,
) -> tuple[Array, Array, Array]:
    """Gradient of attention with the same weights dropped."""
    if keep is None:
        return _d_attend(dy, q, k, v, m, y, lse, scale, mask)
    factor = 1 / (1 - p) if scaling == "scaled" else 1.0
    return _d_weigh(dy, q, k, v, m, y, lse, keep, scale, mask, factor)


def add_to_first(a: Array, b: Array) -> Array:
    """A + B in place of A, which nothing else reads, if it has the type of the sum."""
    return a.add_(b) if torch.promote_types(a.dtype, b.dtype) == a.dtype else a + b


def d_layer_norm(
    dy: Array, x: Array, gamma: Array, mean: Array, rstd: Array
) -> tuple[Array, Array, Array]:
    """Gradient of layer normalization: dγ = Σ dY ⊙ x̂, dβ = Σ dY.

    dX = (dx̂ - mean(dx̂) - x̂ mean(dx̂ x̂)) / sqrt(σ² + ε) with dx̂ = dY ⊙ γ.
    """
    if not dy.dtype == x.dtype == gamma.dtype:
        x, gamma, dy = _widened(x, gamma, dy)
    return torch.ops.aten.native_layer_norm_backward(
        dy, x, x.shape[-1:], mean, rstd, gamma, gamma, (True, True, True)
    )


def add_to_second(a: Array, b: Array) -> Array:
    """A + B in place of B, which nothing else reads, if it has the type of the sum."""
    return b.add_(a) if torch.promote_types(a.dtype, b.dtype) == b.dtype else a + b


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


def _array(arrays: Mapping[str, Array], name: str, axes: int) -> Array:
    """Get an array by its name; raise ValueError if it has another number of axes."""
    given = {key: array for key, array in arrays.items() if key == name}
    _check("arrays", given, {name: axes}, {})
    return arrays[name]


def _copy(saved: Any) -> Any:
    """Copy the records but not their tensors: a backward pass empties its records."""
    if isinstance(saved, list):
        return [_copy(part) for part in saved]
    if saved is None or isinstance(saved, int | Array):
        return saved
    fields = {name: _copy(saved.__dict__[name]) for name in saved._fields}
    return saved.__class__(**fields)


def _shapes(block: torch.nn.Module) -> str:
    """Names and shapes of the parameters that are the block's own, for its `repr`."""
    own = block.named_parameters(recurse=False, remove_duplicate=False)
    return ", ".join([f"{name} {list(weight.shape)}" for name, weight in own])


def _remember(ctx: Any, params: Params, inputs: list[Array], saved: Any) -> None:
    """Hand autograd what the backward pass needs; it frees tensors after their use."""
    tensors = [*params.values(), *inputs]
    ctx.names, ctx.inputs = tuple(params), len(inputs)
    ctx.kept = _packed(saved, tensors)
    ctx.save_for_backward(*tensors)
    device = tensors[0].device.type if tensors else "cpu"
    enabled = torch.is_autocast_enabled(device)
    ctx.autocast = (device, torch.get_autocast_dtype(device), enabled)


def _recall(ctx: Any) -> tuple[Params, list[Array], Any]:
    """Parameters, inputs and saved values; the backward pass alone keeps them now."""
    tensors = iter(ctx.saved_tensors)
    if not torch.compiler.is_compiling():
        ctx.maybe_clear_saved_tensors()
    params = {name: next(tensors) for name in ctx.names}
    inputs = [next(tensors) for _ in range(ctx.inputs)]
    return params, inputs, _unpacked(ctx.kept, tensors)


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
    for name, part in [(name, saved.__dict__[name]) for name in saved._fields]:
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


def _is_uneven(x: Array) -> bool:
    """Whether rows are no multiple of 8 numbers, as a GPU's matrix units take them."""
    return x.is_cuda and x.shape[-1] % 8 != 0


def _filled(x: Array) -> Array:
    """Rows with zeros up to a multiple of 8 numbers; a transposed matrix stays one."""
    missing = -x.shape[-1] % 8
    if x.ndim == 2 and x.stride(-2) == 1:
        return torch.constant_pad_nd(x.T, (0, 0, 0, missing)).T
    return torch.constant_pad_nd(x, (0, missing))


def _is_large(a: Array, b: Array) -> bool:
    """Whether oneDNN, which torch has beside BLAS, is faster: float32, large, on a CPU.

    Traced products and those in fewer bits are left to torch, and so is a `b` that is a
    slice of something wider: there oneDNN falls back to loops, a thousand times slower.
    """
    if a.numel() < 2**16 or b.numel() < 2**16:
        return False
    if not (b.is_contiguous() or b.T.is_contiguous()):
        return False
    return _is_plain(a, b) and torch.backends.mkldnn.is_available()


def _is_plain(a: Array, b: Array) -> bool:
    """Whether both are float32 on a CPU, neither traced nor rounded by autocast."""
    if not a.is_cpu or a.dtype != torch.float32 or b.dtype != torch.float32:
        return False
    return not torch.is_autocast_enabled("cpu") and not torch.compiler.is_compiling()


def _is_row(a: Array, b: Array) -> bool:
    """Whether `row_product` is for these: `a` one row, `b` large and by columns."""
    rows = b.shape[-2]
    if a.numel() != rows or b.stride() != (1, rows):
        return False
    return _is_plain(a, b) and _reads_columns(b)


def _row_product(a: Array, b: Array) -> Array:
    """A B of one row: a product for each column, of which torch makes a batch.

    In one product BLAS waits for memory: twice as long, where no cache has `b`.
    """
    inner, columns = b.shape
    column = a.contiguous().as_strided((columns, inner, 1), (0, 1, inner))
    y = torch.bmm(b.as_strided((columns, 1, inner), (inner, inner, 1)), column)
    return y.view(*a.shape[:-1], columns)


def _reads_columns(w: Array) -> bool:
    """Whether `row_product` is for such matrices: large ones on a CPU that MKL knows.

    Products of columns below 400 numbers torch computes in a slow loop.
    """
    if not w.is_cpu or w.dtype != torch.float32:
        return False
    if w.shape[-2] < 400 or w.numel() < 2**16:
        return False
    return torch.backends.cpu.get_cpu_capability().startswith("AVX")


def _widened(x: Array, gamma: Array, other: Array) -> tuple[Array, Array, Array]:
    """All three in the wider type of the first two."""
    dtype = torch.promote_types(x.dtype, gamma.dtype)
    return x.to(dtype), gamma.to(dtype), other.to(dtype)


def _attend(
    q: Array, k: Array, v: Array, m: Array | None, scale: float, mask: str
) -> tuple[Array, Array]:
    """Attention by torch's own where it has it: one query, the last, sees every key."""
    mask = "none" if q.shape[-2] == 1 else mask
    if _is_flash(q, k, v, m, mask):
        y, lse = _flash(q, k, v, None, scale, mask == "causal")
        return y, lse[..., None]
    weights, lse = _weigh(q, k, m, scale, mask)
    return weights.to(v.dtype) @ v, lse


def _d_attend(
    dy: Array,
    q: Array,
    k: Array,
    v: Array,
    m: Array | None,
    y: Array,
    lse: Array,
    scale: float,
    mask: str,
) -> tuple[Array, Array, Array]:
    """Gradient of attention, by torch's own where the forward pass was."""
    mask = "none" if q.shape[-2] == 1 else mask
    if _is_flash(q, k, v, m, mask):
        return _d_flash(dy, q, k, v, None, y, lse, scale, mask == "causal")
    return _d_weigh(dy, q, k, v, m, y, lse, None, scale, mask, 1.0)


def _attend_kept(
    q: Array,
    k: Array,
    v: Array,
    m: Array | None,
    keep: Array | None,
    scale: float,
    p: float,
    mask: str,
    scaling: str,
) -> tuple[Array, Array]:
    """Attention with the weights that stay; with all of them if `keep` is None."""
    if keep is None:
        return _attend(q, k, v, m, scale, mask)
    weights, lse = _weigh(q, k, m, scale, mask)
    factor = 1 / (1 - p) if scaling == "scaled" else 1.0
    return (weights * keep * factor).to(v.dtype) @ v, lse


def _pairs(q: Array, k: Array) -> Array:
    """Something of the shape of all weights, without memory."""
    return q[..., :1].expand(*q.shape[:-1], k.shape[-2])


def _weigh(
    q: Array,
    k: Array,
    m: Array | None,
    scale: float,
    mask: str,
) -> tuple[Array, Array]:
    """Weights of all pairs, and log Σ exp of each row of scores, 0 of an empty one."""
    z = _scores(q, k, m, scale, mask)
    lse = torch.logsumexp(z, -1, keepdim=True)
    lse = lse.masked_fill(lse == -torch.inf, 0)
    return z.sub_(lse).exp_(), lse


def _d_weigh(
    dy: Array,
    q: Array,
    k: Array,
    v: Array,
    m: Array | None,
    y: Array,
    lse: Array,
    keep: Array | None,
    scale: float,
    mask: str,
    factor: float,
) -> tuple[Array, Array, Array]:
    """Gradient of attention from the weights of all pairs, computed again."""
    weights = _scores(q, k, m, scale, mask).sub_(lse).exp_()
    dz = (dy @ v.mT).to(weights.dtype)
    kept = weights
    if keep is not None:
        kept = weights * keep * factor
        dz = dz * keep * factor
    dz = dz.sub_((dy * y).sum(dim=-1, keepdim=True)).mul_(weights).mul_(scale)
    dz = dz.to(q.dtype)
    return dz @ k, dz.mT @ q, kept.to(dy.dtype).mT @ dy


def _scores(q: Array, k: Array, m: Array | None, scale: float, mask: str) -> Array:
    """α Q K⊤ + M in float32 at least: query i of S sees the keys up to i + S_k - S."""
    z = q @ k.mT
    z = z.to(torch.promote_types(z.dtype, torch.float32)).mul_(scale)
    if m is not None:
        z = z.masked_fill(m == 0, -torch.inf)
    if mask == "causal":
        S, S_k = z.shape[-2:]
        last = torch.arange(S, device=z.device)[:, None] + (S_k - S)
        z = z.masked_fill(torch.arange(S_k, device=z.device) > last, -torch.inf)
    return z


def _is_flash(q: Array, k: Array, v: Array, m: Array | None, mask: str) -> bool:
    """Whether torch has this attention: no mask but a square causal one.

    A GPU has it for heads of a multiple of 8 numbers, at most 256, and not in float64.
    """
    if m is not None or q.ndim != 4 or q.shape[-1] != v.shape[-1]:
        return False
    on_gpu = q.is_cuda and q.itemsize < 8 and q.shape[-1] in range(8, 257, 8)
    if not q.is_cpu and not on_gpu:
        return False
    return mask == "none" or q.shape[-2] == k.shape[-2]


def _flash(
    q: Array, k: Array, v: Array, bias: Array | None, scale: float, causal: bool
) -> tuple[Array, Array]:
    """Attention by a kernel of torch, and log Σ exp of the scores' rows, [B, N, S]."""
    aten, (q, k, v) = torch.ops.aten, _operands(q, k, v)
    kernel = _kernel_of(q)
    if kernel == "cpu":
        return aten._scaled_dot_product_flash_attention_for_cpu(
            q, k, v, 0.0, causal, attn_mask=bias, scale=scale
        )
    if kernel == "flash":
        more = 0.0, causal
        found = aten._scaled_dot_product_flash_attention(q, k, v, *more, scale=scale)
        return found[0], found[1]
    if kernel == "cudnn":
        found = aten._scaled_dot_product_cudnn_attention(
            q, k, v, bias, True, 0.0, causal, False, scale=scale
        )
        return found[0], found[1].squeeze(-1)
    found = aten._scaled_dot_product_efficient_attention(
        q, k, v, bias, True, 0.0, causal, scale=scale
    )
    sums = found[1].narrow(-1, 0, q.shape[-2])  # it has rows up to a multiple of 32
    return found[0], sums


def _d_flash(
    dy: Array,
    q: Array,
    k: Array,
    v: Array,
    bias: Array | None,
    y: Array,
    lse: Array,
    scale: float,
    causal: bool,
) -> tuple[Array, Array, Array]:
    """Gradient of attention by the kernel that `flash` takes."""
    aten, (q, k, v) = torch.ops.aten, _operands(q, k, v)
    given, rows = (_whole(dy.to(y.dtype)), q, k, v, _whole(y)), lse.squeeze(-1)
    kernel, lengths = _kernel_of(q), (q.shape[-2], k.shape[-2])
    if kernel == "cpu":
        _, heads, length = rows.shape
        if rows.stride() != (length * heads, 1, heads):
            rows = rows.mT.contiguous().mT  # torch reads it so, whatever its strides
        return aten._scaled_dot_product_flash_attention_for_cpu_backward(
            *given, rows, 0.0, causal, attn_mask=bias, scale=scale
        )
    seed = torch.empty((), dtype=torch.uint64, device=q.device)  # nothing is dropped
    if kernel == "flash":
        more = None, None, *lengths, 0.0, causal, seed, seed
        return aten._scaled_dot_product_flash_attention_backward(
            *given, rows.contiguous(), *more, scale=scale
        )
    if kernel == "cudnn":
        more = seed, seed, bias, None, None, *lengths, 0.0, causal
        return aten._scaled_dot_product_cudnn_attention_backward(
            *given, rows.unsqueeze(-1).contiguous(), *more, scale=scale
        )
    rows = torch.constant_pad_nd(rows, (0, -rows.shape[-1] % 32), torch.inf)
    more = rows, seed, seed, 0.0, [True, True, True, False], causal
    return aten._scaled_dot_product_efficient_attention_backward(
        *given[:4], bias, given[4], *more, scale=scale
    )[:3]


def _kernel_of(q: Array) -> str:
    """The kernel that torch has for queries, by their device and their type."""
    if q.is_cpu:
        return "cpu"
    if q.itemsize > 2:
        return "efficient"
    return "cudnn" if _plans_pay(q) else "flash"


def _plans_pay(q: Array) -> bool:
    """Whether cuDNN's kernel is faster though it plans for each shape: from Hopper on.

    It has heads of at most 128 numbers; short texts come in many lengths.
    """
    if torch.version.hip is not None or q.shape[-2] < 64 or q.shape[-1] > 128:
        return False
    return torch.cuda.get_device_properties(q.device).major >= 9


def _operands(q: Array, k: Array, v: Array) -> tuple[Array, Array, Array]:
    """All three in the narrowest type of them: under autocast, that of products."""
    dtype = q.dtype
    for other in (k, v):
        dtype = other.dtype if other.itemsize < dtype.itemsize else dtype
    return _whole(q.to(dtype)), _whole(k.to(dtype)), _whole(v.to(dtype))


def _whole(x: Array) -> Array:
    """`x` with the numbers of a row beside each other."""
    return x if x.stride(-1) == 1 else x.contiguous()


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
