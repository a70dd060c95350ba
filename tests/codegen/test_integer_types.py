"""Integers and floats of every type give the numbers that the language defines.

The values are by hand. A module widens the integers that arrive, or refuses them by name.
"""

# JAX and torch say too little of their own types:
# pyright: reportUnknownMemberType=false

from __future__ import annotations

from typing import Any, Final, cast

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from tier import some

import xg
from xg.diagnostics.diagnostic import DiagnosticError
from xg.diagnostics.lazy_dataclass import replace
from xg.ir.verify import violations

INTEGERS: Final = (
    *("bool", "uint8", "int32", "int64"),
    *("int8", "int16", "uint16", "uint32", "uint64"),
)
BACKENDS: Final = ("numpy", "torch", "jax")
TEXTS: Final = {
    "arithmetic": """
        dim B
        op F(x [B], k [B] in 2) = x*(k - 1)
        block A(x [B], k [B] in 2) -> y [B] {
            x -> F<-k : y
        }
    """,
    "embedding": """
        dim B, D = 1
        block E(k [B] in 2) -> y [B, D] {
            param W [2, D]
            k -> Emb(W) : y
        }
    """,
    "gather": """
        dim B, N = 2, K
        block G(x [B, N], k [B, K] in N) -> y [B, K] {
            x -> gather[N]<-k : y
        }
    """,
    "scatter": """
        dim B, N = 2, K
        block S(x [B, K], k [B, K] in N) -> y [B, N] {
            x -> scatter[K]<-k : y
        }
    """,
    "loss": """
        dim B, V = 2
        block C(x [B, V], k [B] in V) -> loss [] {
            x -> CE<-k : loss
        }
    """,
    "not": """
        dim B
        op M(x [B], k [B] in 2) = x*k
        block N(x [B], k [B] in 2) -> y [B] {
            k -> not : m
            x -> M<-m : y
        }
    """,
}
X: Final = np.array([3.0, 5.0])
ROWS: Final = np.array([[3.0, 5.0], [7.0, 11.0]])
BITS: Final = np.array([0, 1])
PAIRS: Final = np.array([[1, 0], [0, 0]])
CASES: Final[dict[str, tuple[dict[str, Any], Any]]] = {
    "arithmetic": ({"x": X, "k": BITS}, [-3, 0]),
    "embedding": ({"k": BITS}, [[3], [5]]),
    "gather": ({"x": ROWS, "k": PAIRS}, [[5, 3], [7, 7]]),
    "scatter": ({"x": ROWS, "k": PAIRS}, [[5, 3], [18, 0]]),
    "loss": ({"x": ROWS, "k": BITS}, (np.log1p(np.exp(2)) + np.log1p(np.exp(-4))) / 2),
    "not": ({"x": X, "k": BITS}, [3, 0]),
}
EVERY: Final = [
    (name, kind, backend, kernels)
    for kind in INTEGERS
    for backend in BACKENDS
    for name in CASES
    for kernels in (False, True)
]


def _kind(case: tuple[str, str, str, bool]) -> object:
    """By day: every operator on each type that a file of numbers has, without kernels."""
    name, kind, backend, kernels = case
    return (name, backend) if kind in INTEGERS[:2] and not kernels else kernels, kind == "uint8"


@pytest.mark.parametrize(("name", "kind", "backend", "kernels"), some(EVERY, _kind))
def test_integers_of_every_type(name: str, kind: str, backend: str, kernels: bool) -> None:
    inputs, expected = CASES[name]
    given = {**inputs, "k": inputs["k"].astype(kind)}
    params = {"W": X[:, None]} if name == "embedding" else {}
    module = xg.compile(source=TEXTS[name]).on_arrays(backend, kernels=kernels)
    outputs, saved = module.forward(params, given)
    (found,) = outputs.values()
    np.testing.assert_allclose(found, expected)
    grads = module.backward(params, saved, {key: np.ones_like(found) for key in outputs})
    wide, kept = module.forward(params, inputs)
    for key, gradient in module.backward(
        params, kept, {k: np.ones_like(found) for k in wide}
    ).items():
        np.testing.assert_array_equal(grads[key], gradient)


@pytest.mark.parametrize("backend", BACKENDS)
def test_products_of_integers_have_64_bits(backend: str) -> None:
    text = """
        dim B, V = 100000
        op F(x [B], i [B] in V) = x + i*i
        block P(x [B], i [B] in V) -> y [B] {
            x -> F<-i : y
        }
    """
    given = {"x": np.zeros(1), "i": np.array([50000], np.int32)}
    outputs, _ = xg.compile(source=text).on_arrays(backend).forward({}, given)
    assert outputs["y"] == [2.5e9]


POSITIONS: Final = """
    dim S
    op P(x [S]) = x + range[S]*range[S]
    block R(x [S]) -> y [S] {
        x -> P : y
    }
"""
CUBE: Final = """
    dim B, V = SIZE
    op F(x [B], i [B] in V) = x + i*i*i
    block C(x [B], i [B] in V) -> y [B] {
        x -> F<-i : y
    }
"""


def test_jax_refuses_positions_beyond_its_integers() -> None:
    program = xg.compile(source=POSITIONS)
    given = {"x": np.zeros(50_000, np.float32)}
    module = cast(Any, program.load("jax"))
    for forward in (module.forward, cast(Any, jax).jit(module.forward)):
        with pytest.raises(ValueError, match="P computes integers up to 2500000000, and they are"):
            forward({}, given)
    outputs, _ = program.on_arrays("jax").forward({}, given)  # in 64 bits
    assert outputs["y"][-1] == np.float32(49_999**2)


def test_integers_beyond_int64_are_refused() -> None:
    xg.compile(source=CUBE.replace("SIZE", "1000"))
    with pytest.raises(DiagnosticError, match="V\\^3 = 1000000000000000000000 is more than"):
        xg.compile(source=CUBE.replace("SIZE", "10000000"))


@pytest.mark.parametrize("backend", ["numpy", "torch"])
def test_a_module_refuses_sizes_with_integers_beyond_int64(backend: str) -> None:
    text = """
        dim S
        op P(x [S]) = x + range[S]*range[S]*range[S]
        block R(x [S]) -> y [S] {
            x -> P : y
        }
    """
    source = xg.compile(source=text).source(backend)
    assert "if S**3 > 9223372036854775807:" in source


def test_the_verifier_refuses_integers_without_a_range() -> None:
    text = """
        dim B
        block N(k [B] in 2) -> m [B] in 2 {
            k -> not : m
        }
    """
    program = xg.compile(source=text).graphs
    graph = program.main
    (out,) = graph.outputs
    types = {**graph.types, out: replace(graph.types[out], range=None)}
    broken = replace(program, graphs={program.entry: replace(graph, types=types)}, backwards={})
    assert any("gives m integers without a range" in each for each in violations(broken))


def test_a_model_and_its_blocks_widen_integers() -> None:
    text = """
        dim B
        op F(x [B], k [B] in 2) = x*(k - 1)
        block Part(x [B], k [B] in 2) -> y [B] {
            param w [B]
            x -> ⊙<-w -> F<-k : y
        }
        block Whole(x [B], k [B] in 2) -> y [B] {
            x -> Part<-k as part : y
        }
    """
    model = cast(Any, xg.compile(source=text, block="Whole").load("torch")).Model(
        B=2, dtype=torch.float64
    )
    x, k = torch.tensor(X), torch.tensor([False, True])
    (whole,) = model(x, k).values()
    assert whole.tolist() == model.part(x, k).tolist() == [-3 * model.part.w[0].item(), 0]


@pytest.mark.parametrize("backend", BACKENDS)
def test_floats_are_no_integers(backend: str) -> None:
    module = xg.compile(source=TEXTS["arithmetic"]).on_arrays(backend)
    with pytest.raises(ValueError, match=r"k should be integers, not .*float64"):
        module.forward({}, {"x": X, "k": BITS.astype(float)})


@pytest.mark.parametrize("kind", ["int32", "int8"])
def test_under_jit_an_integer_outside_its_range_reads_no_row(kind: str) -> None:
    module = cast(Any, xg.compile(source=TEXTS["gather"]).load("jax"))

    def both(x: object, k: object) -> tuple[object, object]:
        outputs, saved = module.forward({}, {"x": x, "k": k})
        gradient = module.backward({}, saved, {"y": jnp.ones((2, 2))})["x"]
        return outputs["y"], gradient

    rows, gradient = cast(Any, jax).jit(both)(ROWS, np.array([[2, 0], [-1, 1]]).astype(kind))
    np.testing.assert_array_equal(rows, [[np.nan, 3], [np.nan, 11]])
    np.testing.assert_array_equal(gradient, [[1, 0], [0, 1]])


def test_on_arrays_of_jax_an_integer_outside_its_range_reads_no_row() -> None:
    module = xg.compile(source=TEXTS["gather"]).on_arrays("jax")
    outputs, _ = module.forward({}, {"x": ROWS, "k": np.array([[2, 0], [-1, 1]])})
    np.testing.assert_array_equal(outputs["y"], [[np.nan, 3], [np.nan, 11]])


@pytest.mark.parametrize("ids", [[[2, 0], [0, 0]], [[0, 0], [-1, 0]]])
def test_torch_compiled_refuses_an_integer_outside_its_range(ids: list[list[int]]) -> None:
    module = cast(Any, xg.compile(source=TEXTS["gather"]).load("torch"))

    x = torch.tensor(ROWS)

    def rows(k: torch.Tensor) -> torch.Tensor:
        return module.forward({}, {"x": x, "k": k})[0]["y"]

    compiled = cast(Any, torch).compile(rows, backend="aot_eager")
    assert compiled(torch.tensor(PAIRS)).tolist() == [[5, 3], [7, 7]]
    with pytest.raises(IndexError, match="out of bounds"):
        compiled(torch.tensor(ids))


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_on_arrays_computes_in_the_type_that_it_is_given(backend: str, dtype: str) -> None:
    program = xg.compile(source=TEXTS["not"])
    if (backend, dtype) == ("numpy", "bfloat16"):
        with pytest.raises(ValueError, match="NumPy has no bfloat16: choose float16, float32 or"):
            program.on_arrays(backend, dtype)
        return
    module = program.on_arrays(backend, dtype)
    outputs, saved = module.forward({}, {"x": X + 2**-12, "k": BITS})
    gradient = module.backward({}, saved, {"y": np.array([1.0, 1.0])})["x"]
    kept = dtype in ("float32", "float64")
    held = "float32" if dtype == "bfloat16" else dtype  # NumPy has no bfloat16
    assert (outputs["y"].dtype, gradient.dtype) == (np.dtype(held), np.dtype(held))
    np.testing.assert_array_equal(outputs["y"], [3 + 2**-12 if kept else 3, 0])


@pytest.mark.parametrize("backend", BACKENDS)
def test_on_arrays_refuses_what_is_no_type_of_floats(backend: str) -> None:
    with pytest.raises(ValueError, match="dtype should be float16, bfloat16, float32 or float64"):
        xg.compile(source=TEXTS["not"]).on_arrays(backend, "int8")
