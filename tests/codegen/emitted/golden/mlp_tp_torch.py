"""Multi-Layer Perceptron: forward and backward pass in torch.

Compiled by xg 0.2.0 from mlp.xg, block MLP. Change the diagram, not this file.
Every rank of the mesh N_T = 2 runs it, on its shards.

    forward(X [B, S, D]) -> Y [B, S, D]
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple

import torch
from xg_runtime.ranks import (
    Cuts,
    Mesh,
    all_reduce,
    all_reduce_max,
    check_mesh,
    gather_shards,
    global_shape,
    local_shard,
    local_shards,
)

Array = torch.Tensor
Params = dict[str, Array]
DType = torch.dtype
Device = torch.device | str | None
Seed = int | torch.Tensor | None
ParamTable = dict[str, tuple[tuple[int, ...], float | str]]

D = 64
N_T = 2


def mlp(params: Params, X: Array, *, seed: Seed) -> tuple[Array, MLPSaved]:
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
    db_down = dZ.sum(dim=(0, 1))  # [D], grad of broadcast
    dU = dZ @ W_down.T  # [B, S, D_ff/N_T], grad of matmul
    dW_down = (  # [D_ff/N_T, D], grad of matmul
        saved.U.reshape(-1, D_ff // N_T).T @ dZ.reshape(-1, D)
    )
    # backward of -> •<=W_up -> ⊕<-BC[B, S](b_up) -> GELU : U [B, S, D_ff]
    d_GELU = d_gelu(dU, saved.add)  # [B, S, D_ff/N_T], grad of gelu
    db_up = d_GELU.sum(dim=(0, 1))  # [D_ff/N_T], grad of broadcast
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


def init(
    seed: int = 0, dtype: DType = torch.float32, device: Device = None, *, D: int = D
) -> Params:
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
            params[name] = torch.ones(shape, dtype=dtype, device=device)
        elif start == "zeros":
            params[name] = torch.zeros(shape, dtype=dtype, device=device)
        else:
            cut = where.get(name, ())
            whole = _normal(seed, name, global_shape(shape, cut), float(start))
            params[name] = local_shard(whole, cut).to(device, dtype)
    return params


@torch.no_grad()
def forward(
    params: Params, inputs: Mapping[str, Array], *, seed: Seed = None
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


@torch.no_grad()
def backward(params: Params, saved: MLPSaved, d_outputs: Mapping[str, Array]) -> Params:
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


class Model(torch.nn.Module):
    """Multi-Layer Perceptron with the shards of its parameters that this rank has."""

    def __init__(
        self,
        seed: int = 0,
        dtype: DType = torch.float32,
        device: Device = None,
        *,
        D: int = D,
    ) -> None:
        super().__init__()
        shards = init(seed, dtype, device, D=D)
        for name, shard in shards.items():
            _keep(self, name, shard)

    def forward(self, X: Array, *, seed: Seed = None) -> dict[str, Array]:
        """Outputs by name, of this rank's shards of the inputs."""
        if torch.compiler.is_compiling():  # what ranks send is not traced
            untraced: Any = torch.compiler.disable(self.forward)
            return untraced(X, seed=seed)
        if seed is None and self.training:  # the same on all ranks
            seed = torch.randint(2**62, (), device=X.device)
            seed = all_reduce_max(seed, "N_T")
        return _run(self, {"X": X}, seed)


# ---- steps of autograd ---------------------------------------------------------------


def _run(model: Any, inputs: Params, seed: Seed) -> dict[str, Array]:
    """Outputs by name, of one step of autograd."""
    weights = dict(model.named_parameters(remove_duplicate=False))
    names = (tuple(inputs), tuple(weights))
    results = _Step.apply(names, seed, *inputs.values(), *weights.values())
    return dict(zip(("Y",), results, strict=True))


class _Step(torch.autograd.Function):
    """`forward` and `backward` of this rank as one step of autograd."""

    @staticmethod
    def forward(
        ctx: Any, names: tuple[tuple[str, ...], ...], seed: Seed, *tensors: Array
    ) -> tuple[Array, ...]:
        given = dict(zip((*names[0], *names[1]), tensors, strict=True))
        inputs = {name: given.pop(name) for name in names[0]}
        params: Params = given
        outputs, saved = forward(params, inputs, seed=seed)
        results = tuple(outputs.values())
        _remember(ctx, given, [], saved, *results)
        ctx.given = names[0]
        return results

    @staticmethod
    def backward(ctx: Any, *cotangents: Array | None) -> tuple[Array | None, ...]:
        if torch.is_grad_enabled():  # create_graph=True
            raise RuntimeError("create_graph=True: no second derivative on ranks")
        given, _, *kept = _recall(ctx)
        params: Params = given
        pairs = zip(("Y",), cotangents, strict=True)
        arrived = {name: dy for name, dy in pairs if dy is not None}
        with _as_before(ctx):
            grads = backward(params, kept.pop(), arrived)
        return None, None, *[grads.get(name) for name in (*ctx.given, *given)]


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
    centred = x - mean
    rstd = 1 / torch.sqrt((centred**2).mean(dim=-1, keepdim=True) + eps)
    return centred * rstd * gamma + beta, mean, rstd


def gelu(x: Array) -> Array:
    """Y = X ⊙ (1 + tanh(u)) / 2, u = sqrt(2/π) (X + 0.044715 X³)."""
    t = torch.tanh(0.7978845608028654 * x * (1 + 0.044715 * x**2))
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
    t = torch.tanh(0.7978845608028654 * x * (1 + 0.044715 * x**2))
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
    part = x_hat * (dx_hat * x_hat).mean(dim=-1, keepdim=True)
    dx = rstd * (dx_hat - dx_hat.mean(dim=-1, keepdim=True) - part)
    dgamma = (dy * x_hat).sum(dim=(0, 1))
    dbeta = dy.sum(dim=(0, 1))
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


def _keep(model: torch.nn.Module, name: str, shard: Array) -> None:
    """Make a shard a parameter where its name says: a number is a place in a row."""
    block: Any = model
    path = name.split(".")
    for i, part in enumerate(path[:-1]):
        if part not in block._modules:
            row = path[i + 1].isdigit()
            block._modules[part] = torch.nn.ModuleList() if row else torch.nn.Module()
        block = block._modules[part]
    block._parameters[path[-1]] = torch.nn.Parameter(shard)


def _remember(
    ctx: Any, params: Params, inputs: list[Array], saved: Any, *results: Array
) -> None:
    """Hand autograd what the backward pass needs: it frees every tensor after its use.

    Of several results some may have no cotangent: torch is not to make zeros for them.
    """
    tensors = [*params.values(), *inputs]
    ctx.names, ctx.inputs = tuple(params), len(inputs)
    ctx.kept = _packed(saved, tensors)
    ctx.save_for_backward(*tensors)
    if results:
        ctx.set_materialize_grads(False)
        ctx.results = [(y.shape, y.dtype, y.device) for y in results]
    device = tensors[0].device.type if tensors else "cpu"
    enabled = torch.is_autocast_enabled(device)
    ctx.autocast = (device, torch.get_autocast_dtype(device), enabled)


def _recall(ctx: Any) -> tuple[Params, list[Array], Any]:
    """Parameters, inputs and saved values, as the forward pass had them."""
    tensors = iter(ctx.saved_tensors)
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
    for name, part in saved._asdict().items():
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
