"""Half types give the results of torch, and no form of a module mixes types in silence.

Large axes are where float16 overflows: 70,000 is more than its largest number, 65,504.
"""

# torch and JAX say too little of their own types:
# pyright: reportUnknownMemberType=false

from __future__ import annotations

from typing import Any, Final, cast

import jax.numpy as jnp
import numpy as np
import pytest
import torch
from library import shipped
from numpy.typing import NDArray

import xg

Array = NDArray[Any]
MANY: Final = 70_000
BACKENDS: Final = ("numpy", "torch", "jax")
TEXTS: Final = {
    "softmax": "dim N\nblock A(x [N]) -> y [N] {\n    x -> S : y\n}",
    "norm": "dim N\nblock A(x [N]) -> y [N] {\n    param g, b [N]\n    x -> LN(g, b) : y\n}",
    "mean": "dim N\nblock A(x [N]) -> y [] {\n    x -> mean[N] : y\n}",
    "sum": "dim N, D = 2\nblock A(x [N, D]) -> y [D] {\n    x -> sum[N] : y\n}",
    "max": "dim N\nop Top(x [N]) = max[N](x)\nblock A(x [N]) -> y [] {\n    x -> Top : y\n}",
    "error": "dim N\nblock A(x [N], t [N]) -> y [] {\n    x -> MSE<-t : y\n}",
    "product": "dim N\nblock A(x [1, N]) -> y [1, 1] {\n    param W [N, 1]\n    x -> •<=W : y\n}",
}
ALTERNATING: Final = np.where(np.arange(MANY) % 2, 300.0, -300.0)
ARRAYS: Final[dict[str, dict[str, Array]]] = {
    "softmax": {"x": np.full(MANY, 3.0)},
    "norm": {"x": ALTERNATING, "g": np.ones(MANY), "b": np.zeros(MANY)},
    "mean": {"x": np.full(MANY, 300.0)},
    "sum": {"x": np.full((MANY, 2), 0.0001)},
    "max": {"x": np.full(MANY, 2.0)},
    "error": {"x": np.full(MANY, 2.0), "t": np.zeros(MANY)},
    "product": {"x": np.full((1, MANY), 0.0001), "W": np.ones((MANY, 1))},
}


NEAR: Final = """
dim B, D
block N(x [B, D]) -> y [B, D] {
    param g, b [D]
    x -> LN(g, b) : y
}
"""


def torch_pass(name: str, arrays: dict[str, Array], dtype: str) -> tuple[Array, Array]:
    """The result and the gradient of x by torch's own operators and autograd."""
    given = {n: torch.tensor(a).to(getattr(torch, dtype)) for n, a in arrays.items()}
    x = given["x"].requires_grad_()
    match name:
        case "softmax":
            y = x.softmax(-1)
        case "norm":
            y = torch.nn.functional.layer_norm(x, (MANY,), given["g"], given["b"])
        case "mean":
            y = x.mean()
        case "sum":
            y = x.sum(0)
        case "max":
            y = x.amax(0)
        case "error":
            y = torch.nn.functional.mse_loss(x, given["t"])
        case _:
            y = x @ given["W"]
    y.backward(torch.ones_like(y))
    assert x.grad is not None
    return y.detach().double().numpy(), x.grad.double().numpy()


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("name", TEXTS)
def test_large_axes_give_what_torch_gives(name: str, dtype: str, backend: str) -> None:
    if (backend, dtype) == ("numpy", "bfloat16"):
        return  # refused: see test_integer_types
    arrays = ARRAYS[name]
    value, gradient = torch_pass(name, arrays, dtype)
    program = xg.compile(source=TEXTS[name])
    params = {n: a for n, a in arrays.items() if n in program.params}
    inputs = {n: a for n, a in arrays.items() if n in program.inputs}
    tolerance = 2**-9 if dtype == "float16" else 2**-6
    for kernels in (False, True) if backend == "torch" else (False,):
        module = program.on_arrays(backend, dtype, kernels=kernels)
        outputs, saved = module.forward(params, inputs)
        grads = module.backward(params, saved, {"y": np.ones_like(outputs["y"])})
        held = "float16" if dtype == "float16" else "float32"  # NumPy has no bfloat16
        assert (outputs["y"].dtype, grads["x"].dtype) == (held, held)
        np.testing.assert_allclose(outputs["y"].astype(float), value, rtol=tolerance)
        np.testing.assert_allclose(grads["x"].astype(float), gradient, rtol=tolerance, atol=1e-7)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    ("node", "x", "y", "slope"),
    [
        ("window[N](K)", "N", "N - K + 1, K", 1024),
        ("conv[N](W)", "N, 1", "N - K + 1, 1", 1024),
        ("meanpool[N](K, stride=1)", "N", "N - K + 1", 1),
    ],
)
def test_gradients_of_a_thousand_windows_are_added_in_float32(
    backend: str, node: str, x: str, y: str, slope: float
) -> None:
    param = "    param W [K, 1, 1]\n" if "W" in node else ""
    text = f"dim N, K = 1024\nblock A(x [{x}]) -> y [{y}] {{\n{param}    x -> {node} : y\n}}\n"
    program = xg.compile(source=text)
    params = dict.fromkeys(program.params, np.ones((1024, 1, 1)))
    inputs = {"x": np.ones((3000, 1) if "W" in node else 3000)}
    dtype = "float16" if backend == "numpy" else "bfloat16"
    for kernels in (False, True) if backend == "torch" else (False,):
        module = program.on_arrays(backend, dtype, kernels=kernels)
        outputs, saved = module.forward(params, inputs)
        dx = module.backward(params, saved, {"y": np.ones_like(outputs["y"])})["x"]
        assert dx[1500] == slope  # 256 + 1 is 256 in bfloat16


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_mean_that_is_no_half_is_not_rounded_between_passes(backend: str) -> None:
    x = 1000 + np.array([[0.0, 1.0, 1.0], [3.0, 0.0, 0.5]])  # means between numbers of float16
    g, b, dy = np.ones(3), np.zeros(3), np.array([[1.0, 0.0, 0.0], [0.0, 2.0, 0.0]])
    given = torch.tensor(x, requires_grad=True)
    torch.nn.functional.layer_norm(given, (3,)).backward(torch.tensor(dy))
    assert given.grad is not None
    program = xg.compile(source=NEAR)
    module = program.on_arrays(backend, "float16")  # torch's own kernel rounds it, on a CPU
    _, saved = module.forward({"g": g, "b": b}, {"x": x})
    dx = module.backward({"g": g, "b": b}, saved, {"y": dy})["x"]
    np.testing.assert_allclose(dx, given.grad.numpy(), rtol=2e-3, atol=1e-3)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("backend", ["torch", "jax"])
def test_a_loss_gives_its_logits_gradients_of_their_type(backend: str, dtype: str) -> None:
    text = "dim B, D, V\nblock N(x [B, D], t [B] in V) -> loss [] {\n    param W [D, V]\n"
    program = xg.compile(source=text + "    x -> •<=W -> CE<-t : loss\n}\n")
    draw = np.random.default_rng(0).standard_normal
    params, inputs = {"W": draw((4, 6))}, {"x": draw((3, 4)), "t": np.array([1, 2, 5])}
    module, exact = program.on_arrays(backend, dtype), program.on_arrays("numpy")
    _, saved = module.forward(params, inputs)
    grads = module.backward(params, saved, {"loss": np.ones(())})
    _, saved = exact.forward(params, inputs)
    expected = exact.backward(params, saved, {"loss": np.ones(())})
    held = "float16" if dtype == "float16" else "float32"  # NumPy has no bfloat16
    for name, gradient in grads.items():
        assert gradient.dtype == held
        np.testing.assert_allclose(gradient, expected[name], atol=0.02)


# ---- floats of two types, and what are no floats ------------------------------------------------

MIXED: Final = """
dim B, D = 2
block A(x [B, D], k [B] in 9) -> y [B, D] {
    param W [D, D]
    param E [9, D]
    k -> Emb(E) : e
    x -> •<=W -> ⊕<-e -> S : y
}
"""


def array(backend: str, kind: str, *shape: int) -> Any:  # noqa: ANN401 - of a library
    """Ones of a type in the library of a backend."""
    if backend == "torch":
        return torch.ones(shape, dtype=getattr(torch, kind))
    return jnp.ones(shape, kind) if backend == "jax" else np.ones(shape, kind)


def mixed(backend: str, x: str, params: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Parameters and inputs of MIXED in these types."""
    weights = {"W": array(backend, params, 2, 2), "E": array(backend, params, 9, 2)}
    return weights, {"x": array(backend, x, 2, 2), "k": array(backend, "uint8", 2)}


@pytest.mark.parametrize("kernels", [False, True])
@pytest.mark.parametrize("backend", BACKENDS)
def test_a_module_refuses_other_floats_than_its_parameters(backend: str, kernels: bool) -> None:
    module = cast(Any, xg.compile(source=MIXED).load(backend, kernels=kernels))
    for kind, said in (
        ("int32", r"x should be floats, not (torch\.)?int32: write x\..*float"),
        ("bool", r"x should be floats, not (torch\.)?bool: write x\..*float"),
        ("float16", r"x should be .*float32, as W is, not .*float16: write x\..*float32"),
    ):
        with pytest.raises(TypeError, match=said):
            module.forward(*mixed(backend, kind, "float32"))
    with pytest.raises(TypeError, match=r"W should be floats, not .*int32"):
        module.forward(*mixed(backend, "float32", "int32"))
    outputs, _ = module.forward(*mixed(backend, "float32", "float32"))
    assert "float32" in str(outputs["y"].dtype)


@pytest.mark.parametrize("kernels", [False, True])
def test_a_model_refuses_them_too_but_under_autocast(kernels: bool) -> None:
    model = cast(Any, xg.compile(source=MIXED).load("torch", kernels=kernels)).Model()
    k = array("torch", "uint8", 2)
    with pytest.raises(TypeError, match=r"x should be torch.float32, as W is, not torch.float64"):
        model(array("torch", "float64", 2, 2), k)
    with pytest.raises(TypeError, match=r"x should be floats, not torch.int64: write x.float\(\)"):
        model(array("torch", "int64", 2, 2), k)
    with torch.autocast("cpu", torch.bfloat16):
        assert model(array("torch", "bfloat16", 2, 2), k)["y"].isfinite().all()


@pytest.mark.parametrize("backend", ["numpy", "torch"])
def test_a_step_refuses_a_cache_of_another_type(backend: str) -> None:
    program = xg.compile(shipped("transformer"), block="LM")
    step = cast(Any, program.step().load(backend))
    params = cast(Any, program.load(backend)).init(V=9, D=8, S_max=4)
    cache = step.empty_cache(params)
    first = next(name for name, x in cache.items() if "float" in str(x.dtype))
    cache[first] = array(backend, "float64", *cache[first].shape)
    inputs = {"ids": array(backend, "int64", 1, 1)}
    with pytest.raises(TypeError, match=rf"{first} should be .*float32, as .* is, not .*float64"):
        step.step(params, cache, inputs)


def test_jax_refuses_them_under_jit() -> None:
    import jax

    module = cast(Any, xg.compile(source=MIXED).load("jax"))
    with pytest.raises(TypeError, match=r"x should be float32, as [EW] is, not float16"):
        jax.jit(module.forward)(*mixed("jax", "float16", "float32"))


def test_a_module_of_numpy_gives_back_float16() -> None:
    module = cast(Any, xg.compile(source=MIXED).load("numpy"))
    params, inputs = mixed("numpy", "float16", "float16")
    outputs, saved = module.forward(params, inputs)
    grads = module.backward(params, saved, outputs)
    assert {x.dtype.name for x in (*outputs.values(), *grads.values())} == {"float16"}
