"""Multi-Head Attention: forward and backward pass in torch.

Compiled by xg 0.2.0 from mha.xg, block MHA. Change the diagram, not this file.

    forward(X [B, S, D]) -> Y [B, S, D]
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
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
    Q = (H @ W_Q + b_Q).reshape(B, S, N_H, D_h).transpose(1, 2)  # [B, N_H, S, D_h]
    # H -> •<=W_K -> ⊕<-BC(b_K) -> R : K [B, N_H, S, D_h]
    K = (H @ W_K + b_K).reshape(B, S, N_H, D_h).transpose(1, 2)  # [B, N_H, S, D_h]
    # -> T : KT [B, N_H, D_h, S]
    KT = K.mT  # [B, N_H, D_h, S]
    # H -> •<=W_V -> ⊕<-BC(b_V) -> R : V [B, N_H, S, D_h]
    V = (H @ W_V + b_V).reshape(B, S, N_H, D_h).transpose(1, 2)  # [B, N_H, S, D_h]
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
    C = O.transpose(1, 2).reshape(B, S, D)  # [B, S, D]
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
    db_O = dA_out.sum(dim=(0, 1))  # [D], grad of broadcast
    dC = dA_out @ W_O.T  # [B, S, D], grad of matmul
    dW_O = saved.C.reshape(-1, D).T @ dA_out.reshape(-1, D)  # [D, D], grad of matmul
    # backward of -> R : C [B, S, D]
    dO = dC.reshape(B, S, N_H, D_h).transpose(1, 2)  # [B, N_H, S, D_h], grad of reshape
    # backward of -> •<=V : O [B, N_H, S, D_h]
    dAS = dO @ saved.V.mT  # [B, N_H, S, S], grad of matmul
    dV = saved.AS.mT @ dO  # [B, N_H, S, D_h], grad of matmul
    # backward of -> DO(p) : AS [B, N_H, S, S]
    dP = d_dropout(dAS, saved.AS_keep, 0.1)  # [B, N_H, S, S], grad of dropout
    # backward of -> S : P [B, N_H, S, S]
    dZ = d_softmax(dP, saved.P)  # [B, N_H, S, S], grad of softmax
    # backward of -> SM(1/sqrt(D_h), causal) : Z [B, N_H, S, S]
    dA = d_scale_mask(dZ, 1 / D_h**0.5, S)  # [B, N_H, S, S], grad of scale_mask
    # backward of Q -> •<=KT : A [B, N_H, S, S]
    dQ = dA @ saved.KT.mT  # [B, N_H, S, D_h], grad of matmul
    dKT = saved.Q.mT @ dA  # [B, N_H, D_h, S], grad of matmul
    # backward of H -> •<=W_V -> ⊕<-BC(b_V) -> R : V [B, N_H, S, D_h]
    d_R_V = dV.transpose(1, 2).reshape(B, S, D)  # [B, S, D], grad of reshape
    db_V = d_R_V.sum(dim=(0, 1))  # [D], grad of broadcast
    dW_V = saved.H.reshape(-1, D).T @ d_R_V.reshape(-1, D)  # [D, D], grad of matmul
    # backward of -> T : KT [B, N_H, D_h, S]
    dK = dKT.mT  # [B, N_H, S, D_h], grad of transpose
    # backward of H -> •<=W_K -> ⊕<-BC(b_K) -> R : K [B, N_H, S, D_h]
    d_R_K = dK.transpose(1, 2).reshape(B, S, D)  # [B, S, D], grad of reshape
    db_K = d_R_K.sum(dim=(0, 1))  # [D], grad of broadcast
    dW_K = saved.H.reshape(-1, D).T @ d_R_K.reshape(-1, D)  # [D, D], grad of matmul
    # backward of H -> •<=W_Q -> ⊕<-BC(b_Q) -> R : Q [B, N_H, S, D_h]
    d_R_Q = dQ.transpose(1, 2).reshape(B, S, D)  # [B, S, D], grad of reshape
    db_Q = d_R_Q.sum(dim=(0, 1))  # [D], grad of broadcast
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
        raise ValueError(f"S = {S}: S (softmax) needs at least one position")
    if D % N_H:
        raise ValueError(f"D_h = D/N_H = {D}/{N_H} is not a whole number")
    Y, saved = mha(params, inputs["X"], seed=seed)
    return {"Y": Y}, saved


@torch.no_grad()
def backward(params: Params, saved: MHASaved, d_outputs: Mapping[str, Array]) -> Params:
    """Gradients of all parameters and float inputs by name; no cotangent means zero."""
    if not hasattr(saved, "X"):
        raise TypeError("saved should be the second result of forward, not its first")
    B, S, D = saved.X.shape
    _check("d_outputs", d_outputs, {"Y": (B, S, D)}, params)
    like = next(iter({**params, **d_outputs}.values()))
    dtype, device = like.dtype, like.device
    dY = d_outputs.get("Y")
    if dY is None:
        dY = torch.zeros((B, S, D), dtype=dtype, device=device)
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
            raise ValueError(f"S = {S}: S (softmax) needs at least one position")
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
        _remember(ctx, params, [X], saved)
        ctx.seed = seed
        return Y

    @staticmethod
    def backward(ctx: Any, dY: Array) -> tuple[Array | None, ...]:
        params, inputs, saved = _recall(ctx)
        grads: Params = {}
        with _as_before(ctx):
            if torch.is_grad_enabled():  # create_graph=True
                *_, saved = mha(params, *inputs, seed=ctx.seed)
            dX = d_mha(params, saved, dY, grads)
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


@_in_float32(1)
def layer_norm(
    x: Array, gamma: Array, beta: Array, eps: float
) -> tuple[Array, Array, Array]:
    """Y = x̂ ⊙ γ + β, x̂ = (X - μ) / sqrt(σ² + ε)."""
    mean = x.mean(dim=-1, keepdim=True)
    centered = x - mean
    rstd = 1 / torch.sqrt((centered**2).mean(dim=-1, keepdim=True) + eps)
    return centered * rstd * gamma + beta, mean, rstd


def scale_mask(a: Array, scale: float, S: int) -> Array:
    """z_ij = α a_ij if j <= i + S_k - S, else -inf."""
    part = torch.arange(S, device=a.device)[..., None]
    visible = part >= torch.arange(S, device=a.device)
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


def d_scale_mask(dz: Array, scale: float, S: int) -> Array:
    """Gradient of scale_mask: da_ij = α dz_ij if j <= i + S_k - S, else 0."""
    part = torch.arange(S, device=dz.device)[..., None]
    visible = part >= torch.arange(S, device=dz.device)
    return torch.where(visible, dz * scale, 0)


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


def _shapes(block: torch.nn.Module) -> str:
    """Names and shapes of the parameters that are the block's own, for its `repr`."""
    own = block.named_parameters(recurse=False, remove_duplicate=False)
    return ", ".join([f"{name} {list(weight.shape)}" for name, weight in own])


def _remember(ctx: Any, params: Params, inputs: list[Array], saved: Any) -> None:
    """Hand autograd what the backward pass needs; it frees tensors after their use."""
    tensors = [*params.values(), *inputs]
    ctx.names, ctx.inputs = tuple(params), len(inputs)
    ctx.kept = saved.__class__
    ctx.save_for_backward(*tensors, *saved)
    device = tensors[0].device.type if tensors else "cpu"
    enabled = torch.is_autocast_enabled(device)
    ctx.autocast = (device, torch.get_autocast_dtype(device), enabled)


def _recall(ctx: Any) -> tuple[Params, list[Array], Any]:
    """Parameters, inputs and saved values, as the forward pass had them."""
    tensors = iter(ctx.saved_tensors)
    params = {name: next(tensors) for name in ctx.names}
    inputs = [next(tensors) for _ in range(ctx.inputs)]
    return params, inputs, ctx.kept(*tensors)


def _as_before(ctx: Any) -> AbstractContextManager[Any]:
    """The autocast state of the forward pass, entered again where it has changed."""
    device, dtype, enabled = ctx.autocast
    if enabled or torch.is_autocast_enabled(device):
        return torch.autocast(device, dtype, enabled)
    return nullcontext()


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


def _drop(x: Array, keep: Array | None, kept: float) -> Array:
    """`x` scaled by 1 / kept where it is kept, else 0; `x` itself without a mask."""
    return x if keep is None else x * keep * (1 / kept)


def _keep_mask(x: Array, p: float, seed: Seed, place: str) -> Array | None:
    """Draw which elements of `x` dropout keeps; None, all of them, without a seed."""
    if seed is None:
        return None
    index = torch.arange(x.numel(), device=x.device)
    drawn = _words_at(_random_key(seed, place, x.device), index)
    return (_shift_right(drawn, 40) >= round(p * 2**24)).reshape(x.shape)


def _check_float(dtype: DType) -> None:
    """Raise TypeError for another type than one of floats."""
    if not (hasattr(dtype, "is_floating_point") and dtype.is_floating_point):
        raise TypeError(f"dtype should be a type of floats of torch, not {dtype}")


def _normal(seed: Seed, place: str, shape: tuple[int, ...], deviation: float) -> Array:
    """Nearly normal numbers, from integers alone: sums of four uniforms of 16 bits."""
    key = _random_key(seed, place)
    drawn = _words_at(key, torch.arange(math.prod(shape), device=key.device))
    centered = torch.full_like(drawn, -2 * 65535)
    for lane in range(4):
        centered += _shift_right(drawn, 16 * lane) & 65535
    scale = deviation / ((65536**2 - 1) / 3) ** 0.5
    return (centered.double() * scale).reshape(shape)


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


def _words_at(key: Array, index: Array) -> Array:
    """Random 64-bit words (SplitMix64): each depends on the key and its index alone."""
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
