"""Emitted JAX under `jax.jit` and `jax.grad`, in the types that JAX has by default."""

# JAX says too little of its own types:
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.typing import NDArray
from tier import THOROUGH

import xg
from xg.codegen.jax import support
from xg.codegen.numpy import support as reference
from xg.verify.reference.interpret import initial
from xg_runtime.module import Module

Arrays = dict[str, NDArray[Any]]
DIAGRAMS = Path(__file__).parents[3] / "diagrams"
SIZES = {"V": 11, "D": 8, "N_H": 2, "N_L": 1, "D_ff": 7, "S_max": 9}
IDS = {"ids": np.array([[1, 2, 3], [0, 4, 7]]), "t": np.array([[2, 3, 4], [10, 5, 1]])}
SEED = -3  # of dropout
SEEDS = [0, 3, -1, 2**31, 2**32 + 5, 2**63 - 1, -(2**40)]


@pytest.fixture(scope="module")
def program() -> xg.Program:
    return xg.compile(DIAGRAMS / "models" / "transformer.xg", sizes=SIZES)


@pytest.fixture(scope="module")
def module(program: xg.Program) -> ModuleType:
    return program.load("jax")


@pytest.fixture(scope="module")
def on_arrays(program: xg.Program) -> Module:
    """Compiled once for all tests of it."""
    return program.on_arrays("jax")


@pytest.fixture(scope="module")
def params(program: xg.Program) -> Arrays:
    return initial(program.graphs, 1)


# ---- compiled and differentiated -----------------------------------------------------------------


def test_the_gradient_of_the_forward_pass_is_the_backward_pass(
    module: ModuleType, params: Arrays
) -> None:
    """In float64 and with dropout, all of it compiled in one function."""

    def loss(params: Arrays) -> jax.Array:
        return module.forward(params, IDS, seed=SEED)[0]["loss"]

    @jax.jit
    def both(params: Arrays) -> tuple[Any, Any]:
        outputs, saved = module.forward(params, IDS, seed=SEED)
        one = {"loss": jnp.ones_like(outputs["loss"])}
        return jax.grad(loss)(params), module.backward(params, saved, one)

    with jax.enable_x64(True):
        automatic, emitted = both(params)
    assert emitted.keys() == params.keys()
    for name, gradient in automatic.items():
        assert gradient.dtype == np.float64
        np.testing.assert_allclose(emitted[name], gradient, rtol=1e-10, atol=1e-13, err_msg=name)
    assert min(float(np.abs(gradient).max()) for gradient in emitted.values()) > 0


def test_both_passes_are_compiled_apart_in_float32(
    program: xg.Program, module: ModuleType, params: Arrays
) -> None:
    """As JAX is by default; the seed is traced, and drops what it drops in NumPy."""
    assert jnp.zeros(0).dtype == np.float32
    narrow = {name: array.astype(np.float32) for name, array in params.items()}
    outputs, saved = jax.jit(module.forward)(narrow, IDS, seed=jnp.int32(SEED))
    one = {"loss": jnp.ones(())}
    gradients = jax.jit(module.backward)(narrow, saved, one)
    numpy = program.load("numpy")
    expected, kept = numpy.forward(params, IDS, seed=SEED)
    derived = numpy.backward(params, kept, {"loss": np.ones(())})
    assert {array.dtype for array in (*outputs.values(), *gradients.values())} == {
        np.dtype(np.float32)
    }
    for name, array in expected.items():
        np.testing.assert_allclose(outputs[name], array, rtol=2e-5, atol=2e-5)
    for name, gradient in derived.items():
        np.testing.assert_allclose(gradients[name], gradient, rtol=1e-3, atol=1e-5, err_msg=name)


SUMMED = """\
dim B, D
block Total(X [B, D]) -> y [B] {
    X -> sum[D] : y
}
"""


def test_sizes_that_are_saved_as_numbers_are_not_traced(tmp_path: Path) -> None:
    (tmp_path / "total.xg").write_text(SUMMED, encoding="utf-8")
    module = xg.compile(tmp_path / "total.xg").load("jax")
    _, saved = jax.jit(module.forward)({}, {"X": jnp.ones((2, 5))})
    assert saved.D == 5
    assert jax.tree.leaves(saved.D) == []
    gradients = jax.jit(module.backward)({}, saved, {"y": jnp.array([2.0, 3.0])})
    np.testing.assert_array_equal(gradients["X"], [[2.0] * 5, [3.0] * 5])


def test_an_id_outside_gives_nan(on_arrays: Module, params: Arrays) -> None:
    outputs, _ = on_arrays.forward(params, {**IDS, "ids": IDS["ids"] + 7})
    assert np.isnan(outputs["Z"][1, 2]).all()
    assert np.isfinite(outputs["Z"][0, 0]).all()


# ---- random numbers ------------------------------------------------------------------------------


@pytest.mark.parametrize("wide", [False, True], ids=["32 bits", "64 bits"])
def test_the_same_elements_are_dropped_as_in_numpy(wide: bool) -> None:
    with jax.enable_x64(wide):
        for seed in SEEDS:
            mask = reference.keep_mask(np.zeros((3, 1, 5)), 0.3, seed, "layers.0.α")
            kinds: list[Any] = [seed, np.uint64(seed % 2**64)] if wide else [seed]
            kinds += [jnp.int32(seed)] if abs(seed) < 2**31 else []
            for kind in kinds:
                found = support.keep_mask(jnp.zeros((3, 1, 5)), 0.3, kind, "layers.0.α")
                np.testing.assert_array_equal(found, mask)


def test_words_multiply_and_add_as_whole_numbers() -> None:
    draw = np.random.default_rng(0)
    numbers = [*draw.integers(0, 2**64, 40, np.uint64).tolist(), 0, 1, 2**32, 2**64 - 1]
    for a, b in zip(numbers, reversed(numbers), strict=True):
        for made, expected in (
            (support.plus(support.word(a), support.word(b)), a + b),
            (support.times(support.word(a), support.word(b)), a * b),
            (support.shifted(support.word(a), 27), a ^ a >> 27),
        ):
            assert int(made.high) << 32 | int(made.low) == expected % 2**64


def test_parameters_start_as_in_numpy(program: xg.Program, module: ModuleType) -> None:
    """The same bits in 64 bits, daily of float64; without them JAX rounds the last one."""
    for dtype in (np.float32, np.float64) if THOROUGH else (np.float64,):
        expected = program.load("numpy").init(5, dtype)
        found = program.on_arrays("jax").init(5, dtype)
        assert list(found) == list(expected)
        for name, array in expected.items():
            assert found[name].dtype == dtype
            np.testing.assert_array_equal(found[name], array)
    wide = program.load("numpy").init(5, np.float64)
    for name, array in module.init(5).items():
        np.testing.assert_allclose(array, wide[name], rtol=3e-7)


# ---- on arrays of NumPy --------------------------------------------------------------------------


def test_arrays_come_back_in_order_wide_and_to_be_written_to(
    program: xg.Program, on_arrays: Module, params: Arrays
) -> None:
    outputs, saved = on_arrays.forward(params, dict(IDS))
    gradients = on_arrays.backward(params, saved, {"loss": np.ones(())})
    assert list(outputs) == list(program.outputs)
    for array in (*outputs.values(), *gradients.values()):
        assert array.dtype == np.float64
        array *= 2
    assert jnp.zeros(0).dtype == np.float32  # 64 bits were for these calls alone


@pytest.mark.parametrize("outside", [-1, 2, 7])
def test_no_token_goes_to_the_place_of_another_expert(outside: int) -> None:
    """With integers of 32 bits, the place of an expert that is not there would overflow."""
    text = """
        dim S, K, D
        block N(x [S, D], ids [S, K] in 2) -> y [2, 2, D] {
            x -> dispatch(2, 2)<-ids : y, slot, dropped
        }
    """
    module = xg.compile(source=text).on_arrays("jax").module  # pyright: ignore[reportAttributeAccessIssue]
    x, ids = jnp.array([[3.0], [5.0]]), jnp.array([[0], [outside]])
    outputs, saved = jax.jit(module.forward)({}, {"x": x, "ids": ids})
    assert outputs["y"].ravel().tolist() == [3, 0, 0, 0]
    gradients = jax.jit(module.backward)({}, saved, {"y": jnp.ones((2, 2, 1))})
    assert gradients["x"].ravel().tolist() == [1, 0]
