"""Generated modules say what is wrong with arguments of another kind than they take."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from types import ModuleType
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
import torch

import xg

FILE = """\
dim B, S, D = 8

block Net(h [B, S, D], m [B, S]) -> Y [B, S, D], n [B, S] {
    param gamma [D], beta [D], W [D, D]

    h -> LN(gamma, beta) -> •<=W -> DO(0.1) : Y
    m -> tanh                               : n
}
"""
HEAD = """\
dim B, S, D = 4

block Head(X [B, S, D]) -> Y [B, S, D] {
    param W [D, D]

    X -> •<=W                                  : K [B, S, D]
    X -> •<=T(K) -> SM(1/sqrt(D), causal) -> S : P [B, S, S]
      -> •<=K                                  : Y
}
"""
BACKENDS = ["numpy", "torch", "jax"]
Case = tuple[Callable[[ModuleType, Any, Any], object], type[Exception], str]


def numbers(backend: str, *shape: int) -> Any:  # noqa: ANN401 - of any library
    ones = np.ones(shape, np.float32)
    if backend == "torch":
        return torch.tensor(ones)
    return ones if backend == "numpy" else jnp.ones(shape)  # pyright: ignore[reportUnknownMemberType]


def whole(backend: str) -> Any:  # noqa: ANN401 - of any library
    return {"numpy": np.int64, "torch": torch.int64, "jax": jnp.int32}[backend]


CASES: dict[str, Case] = {
    "a wrong name": (
        lambda m, p, x: m.forward(p, {"x": x["h"], "m": x["m"]}),
        ValueError,
        "there is no x, but h, m",
    ),
    "an array": (
        lambda m, p, x: m.forward(p, x["h"]),
        TypeError,
        "inputs should be a dict: arrays by their names",
    ),
    "parameters that are an array": (
        lambda m, p, x: m.forward(p["W"], x),
        TypeError,
        "params should be a dict: arrays by their names",
    ),
    "swapped": (
        lambda m, p, x: m.forward(x, p),
        ValueError,
        "params and inputs are swapped: params come first",
    ),
    "none": (lambda m, p, x: m.forward(p, {}), ValueError, "h is missing"),
    "a seed": (
        lambda m, p, x: m.forward(p, x, seed="a"),
        TypeError,
        "seed should be a whole number, not 'a'",
    ),
    "a seed of parameters": (
        lambda m, p, x: m.init("a"),
        TypeError,
        "seed should be a whole number, not 'a'",
    ),
    "a fraction": (
        lambda m, p, x: m.forward(p, x, seed=1.5),
        TypeError,
        "seed should be a whole number, not '1.5'",
    ),
    "outputs": (
        lambda m, p, x: m.backward(p, m.forward(p, x)[0], {}),
        TypeError,
        "saved should be the second result of forward, not its first",
    ),
    "both results": (
        lambda m, p, x: m.backward(p, m.forward(p, x), {}),
        TypeError,
        "saved should be the second result of forward",
    ),
    "a cotangent alone": (
        lambda m, p, x: m.backward(p, m.forward(p, x)[1], x["h"]),
        TypeError,
        "d_outputs should be a dict: arrays by their names",
    ),
    "another width": (
        lambda m, p, x: m.forward(p, {**x, "h": x["h"][:, :, :7]}),
        ValueError,
        "h [2, 3, 7] does not fit the parameters: 7 should be 8, as in gamma [8]",
    ),
    "complex": (
        lambda m, p, x: m.forward(p, {**x, "m": x["m"] * 1j}),
        TypeError,
        "m should have real numbers, not ",
    ),
}


@cache
def loaded(backend: str) -> ModuleType:
    return xg.compile(source=FILE).load(backend)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("what", CASES)
def test_what_is_wrong_with_an_argument(backend: str, what: str) -> None:
    call, kind, said = CASES[what]
    module = loaded(backend)
    inputs = {"h": numbers(backend, 2, 3, 8), "m": numbers(backend, 2, 3)}
    params = module.init()
    assert module.backward(params, module.forward(params, inputs, seed=1)[1], {}).keys()
    with pytest.raises(kind, match=f"^{re.escape(said)}"):
        call(module, params, inputs)


@pytest.mark.parametrize("backend", BACKENDS)
def test_parameters_are_floats(backend: str) -> None:
    module = loaded(backend)
    for dtype in (whole(backend), {"torch": torch.complex64}.get(backend, complex)):
        with pytest.raises(TypeError, match=r"^dtype should be a type of floats"):
            module.init(dtype=dtype)


def test_parameters_of_half_precision() -> None:
    assert xg.compile(source=FILE).load().init(dtype=np.float16)["W"].dtype == np.float16
    module = xg.compile(source=FILE).load("torch")
    assert module.init(dtype=torch.bfloat16)["W"].dtype == torch.bfloat16
    module = xg.compile(source=FILE).load("jax")
    assert module.init(dtype=jnp.bfloat16)["W"].dtype == jnp.bfloat16


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_seed_may_be_of_numpy(backend: str) -> None:
    module = xg.compile(source=FILE).on_arrays(backend)
    one, other = module.init(np.int64(7)), module.init(7)  # pyright: ignore[reportArgumentType]
    assert np.array_equal(one["W"], other["W"])
    with pytest.raises(TypeError, match=r"^seed should be a whole number, not 'a'$"):
        module.init("a")  # pyright: ignore[reportArgumentType]


def test_a_step_says_so_too() -> None:
    module = xg.compile(source=HEAD).step().load()
    params, x = {"W": np.ones((4, 4))}, np.ones((1, 1, 4))
    cache = module.empty_cache(params)
    assert module.step(params, cache, {"X": x})[0]["Y"].shape == (1, 1, 4)
    with pytest.raises(TypeError, match=r"^inputs should be a dict"):
        module.step(params, cache, x)
    with pytest.raises(TypeError, match=r"^cache should be a dict"):
        module.step(params, None, {"X": x})
    with pytest.raises(ValueError, match=r"^there is no x, but X$"):
        module.step(params, cache, {"x": x})


def test_a_parameter_of_another_shape_is_named_itself() -> None:
    """The input has the number that is expected of it, and is right."""
    module = xg.compile(source=FILE).load()
    params = module.init() | {"W": np.ones((8, 9), np.float32)}
    inputs = {"h": numbers("numpy", 2, 3, 8), "m": numbers("numpy", 2, 3)}
    with pytest.raises(ValueError, match=r"^W should have shape \[8, 8\], not \[8, 9\]$"):
        module.forward(params, inputs)
