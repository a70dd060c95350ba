"""Multi-Head Attention: forward and backward pass in torch.

Compiled by xg from mha.xg, block MHA. Change the diagram, not this file.

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
Names = tuple[str, ...]
DType = torch.dtype
Device = torch.device | str | None
Seed = int | torch.Tensor | None

D = 64
N_H = 4


class MHASaved(NamedTuple):
    """What `mha` keeps for its backward pass."""

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
    Y_keep: Array | None  # [B, S, D]


def mha(params: Params, X: Array, *, seed: Seed) -> tuple[Array, MHASaved]:
    """Multi-Head Attention (mha.xg, line 4).

    X [B, S, D] -> Y [B, S, D]
    """
    gamma, beta, W_Q, W_K, W_V, W_O, b_Q, b_K, b_V, b_O = take(
        params, "", "gamma beta W_Q W_K W_V W_O b_Q b_K b_V b_O"
    )
    B, S, D = X.shape
    D_h = D // N_H
    H, H_mean, H_rstd = layer_norm(X, gamma, beta, 1e-05)  # [B, S, D], line 9
    # [B, N_H, S, D_h], line 10
    Q = (H @ W_Q + b_Q).reshape(B, S, N_H, D_h).transpose(1, 2)
    # [B, N_H, S, D_h], line 11
    K = (H @ W_K + b_K).reshape(B, S, N_H, D_h).transpose(1, 2)
    KT = K.mT  # [B, N_H, D_h, S], line 12
    # [B, N_H, S, D_h], line 13
    V = (H @ W_V + b_V).reshape(B, S, N_H, D_h).transpose(1, 2)
    A = Q @ KT  # [B, N_H, S, S], line 15
    Z = scale_mask(A, 1 / D_h**0.5, S)  # [B, N_H, S, S], line 16
    P = softmax(Z)  # [B, N_H, S, S], line 17
    AS, AS_keep = dropout(P, 0.1, seed, "AS")  # [B, N_H, S, S], line 18
    O = AS @ V  # [B, N_H, S, D_h], line 19
    C = O.transpose(1, 2).reshape(B, S, D)  # [B, S, D], line 20
    A_out = C @ W_O + b_O  # [B, S, D], line 21
    Y_1, Y_keep = dropout(A_out, 0.1, seed, "DO_1")  # [B, S, D], line 22
    Y = Y_1 + X  # [B, S, D], line 22
    return Y, MHASaved(X, H, H_mean, H_rstd, Q, KT, V, P, AS, AS_keep, C, Y_keep)


def d_mha(params: Params, saved: MHASaved, dY: Array, grads: Params) -> Array:
    """Backward pass of Multi-Head Attention (mha.xg, line 4)."""
    gamma, W_Q, W_K, W_V, W_O = take(params, "", "gamma W_Q W_K W_V W_O")
    B, S, D = saved.X.shape
    N_H = saved.Q.shape[1]
    D_h = saved.Q.shape[3]
    dA_out = d_dropout(dY, saved.Y_keep, 0.1)  # [B, S, D], dDO of line 22
    db_O = dA_out.sum(dim=(0, 1))  # [D], dBC of line 21
    dC = dA_out @ W_O.T  # [B, S, D], d• of line 21
    dW_O = saved.C.reshape(-1, D).T @ dA_out.reshape(-1, D)  # [D, D], d• of line 21
    dO = dC.reshape(B, S, N_H, D_h).transpose(1, 2)  # [B, N_H, S, D_h], dR of line 20
    dAS = dO @ saved.V.mT  # [B, N_H, S, S], d• of line 19
    dV = saved.AS.mT @ dO  # [B, N_H, S, D_h], d• of line 19
    dP = d_dropout(dAS, saved.AS_keep, 0.1)  # [B, N_H, S, S], dDO of line 18
    dZ = d_softmax(dP, saved.P)  # [B, N_H, S, S], dS of line 17
    dA = d_scale_mask(dZ, 1 / D_h**0.5, S)  # [B, N_H, S, S], dSM of line 16
    dQ = dA @ saved.KT.mT  # [B, N_H, S, D_h], d• of line 15
    dKT = saved.Q.mT @ dA  # [B, N_H, D_h, S], d• of line 15
    dV_1 = dV.transpose(1, 2).reshape(B, S, D)  # [B, S, D], dR of line 13
    db_V = dV_1.sum(dim=(0, 1))  # [D], dBC of line 13
    dW_V = saved.H.reshape(-1, D).T @ dV_1.reshape(-1, D)  # [D, D], d• of line 13
    dK = dKT.mT  # [B, N_H, S, D_h], dT of line 12
    dK_1 = dK.transpose(1, 2).reshape(B, S, D)  # [B, S, D], dR of line 11
    db_K = dK_1.sum(dim=(0, 1))  # [D], dBC of line 11
    dW_K = saved.H.reshape(-1, D).T @ dK_1.reshape(-1, D)  # [D, D], d• of line 11
    dQ_1 = dQ.transpose(1, 2).reshape(B, S, D)  # [B, S, D], dR of line 10
    db_Q = dQ_1.sum(dim=(0, 1))  # [D], dBC of line 10
    dW_Q = saved.H.reshape(-1, D).T @ dQ_1.reshape(-1, D)  # [D, D], d• of line 10
    # [B, S, D], d•, sum of a fan-out of lines 9-13
    dH = dV_1 @ W_V.T + dK_1 @ W_K.T + dQ_1 @ W_Q.T
    # [B, S, D], dLN of line 9
    dX_LN, dgamma, dbeta = d_layer_norm(dH, saved.X, gamma, saved.H_mean, saved.H_rstd)
    dX = dY + dX_LN  # [B, S, D], sum of a fan-out of line 4
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


def table(*, D: int) -> dict[str, tuple[tuple[int, ...], float | str]]:
    """Name, shape and start of every parameter: a word, or the deviation of a normal."""
    starts: dict[str, tuple[tuple[int, ...], float | str]] = {}
    starts |= {
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
    return starts


def init(
    seed: int = 0, dtype: DType = torch.float32, device: Device = None, *, D: int = D
) -> Params:
    """Parameters by their names in the diagram, drawn from the seed."""
    params: Params = {}
    starts = table(D=D)
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
) -> tuple[dict[str, Array], MHASaved]:
    """Outputs by name, and what `backward` needs; without a seed dropout is off."""
    B, S, D = array(inputs, "X", 3).shape
    starts = table(D=D)
    shapes = {name: shape for name, (shape, _) in starts.items()}
    shapes["X"] = (B, S, D)
    check({**inputs, **params}, shapes)
    Y, saved = mha(params, inputs["X"], seed=seed)
    return {"Y": Y}, saved


@torch.no_grad()
def backward(params: Params, saved: MHASaved, d_outputs: Mapping[str, Array]) -> Params:
    """Gradients of all parameters and float inputs by name; no cotangent means zero."""
    like = next(iter({**params, **d_outputs}.values()))
    dtype, device = like.dtype, like.device
    B, S, D = saved.X.shape
    dY = d_outputs.get("Y")
    if dY is None:
        dY = torch.zeros((B, S, D), dtype=dtype, device=device)
    grads: Params = {}
    dX = d_mha(params, saved, dY, grads)
    grads["X"] = dX
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


class MHAStep(torch.autograd.Function):
    """`mha` as one step of autograd, backwards by `d_mha`."""

    @staticmethod
    def forward(ctx: Any, names: Names, seed: Seed, X: Array, *weights: Array) -> Array:
        params = dict(zip(names, weights))
        Y, saved = mha(params, X, seed=seed)
        remember(ctx, params, [X], saved)
        ctx.seed = seed
        return Y

    @staticmethod
    def backward(ctx: Any, dY: Array) -> tuple[Array | None, ...]:
        params, inputs, saved = recall(ctx)
        grads: Params = {}
        with as_before(ctx):
            if torch.is_grad_enabled():  # create_graph=True
                *_, saved = mha(params, *inputs, seed=ctx.seed)
            dX = d_mha(params, saved, dY, grads)
        return None, None, dX, *[grads.get(name) for name in params]


class Model(Named):
    """Multi-Head Attention as a module."""

    def __init__(
        self,
        seed: int = 0,
        dtype: DType = torch.float32,
        device: Device = None,
        *,
        D: int = D,
    ) -> None:
        params = init(seed, dtype, device, D=D)
        own = {name: value for name, value in params.items() if "." not in name}
        super().__init__(own, "")

    def forward(self, X: Array, *, seed: Seed = None) -> dict[str, Array]:
        """Outputs by name; in training, dropout draws a seed if none is given."""
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


def scale_mask(a: Array, scale: float, S: int) -> Array:
    """Scales scores; -inf where the mask is 0, and (causal) where key j > query i + S_k
    - S: Z = α A + M, M = 0 or -inf.
    """
    part = torch.arange(S, device=a.device)[..., None]
    visible = part >= torch.arange(S, device=a.device)
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


def d_scale_mask(dz: Array, scale: float, S: int) -> Array:
    """Gradient of scale_mask: dA = α dZ, 0 where masked."""
    part = torch.arange(S, device=dz.device)[..., None]
    visible = part >= torch.arange(S, device=dz.device)
    return torch.where(visible, dz * scale, 0)


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
