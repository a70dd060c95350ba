"""Shipped diagrams agree with the interpreter at their edges; what was wrong there stays right."""

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from library import shipped
from tier import THOROUGH

import xg
from xg.cli.verification import by_default
from xg.driver import compile_project
from xg.frontend.project import read_project
from xg.frontend.typed import Settings, dims_of
from xg.verify.domains import refusal
from xg.verify.edges.point import Point, round_to
from xg.verify.edges.proof import EdgeProof, point_at, try_edges
from xg.verify.proof_sizes import sizes_of_proof

# Daily those in which something was wrong: exact GELU in float16, and kernels at S = 1.
DAILY = ("bert", "legend", "mha", "mlp", "rwkv")
PATHS = sorted(shipped("mlp").parents[1].rglob("*.xg"))


def _edges(path: Path, block: str, settings: Settings) -> EdgeProof:
    project = read_project(path)
    draft = compile_project(project, block, settings).on_one_device
    sizes = sizes_of_proof(compile_project(project, block, settings), {})
    numbers = {name: n for name, n in sizes.items() if name in dims_of(project, block)}
    program = compile_project(project, block, {**settings, **numbers}).on_one_device
    with np.errstate(all="ignore"):
        return try_edges(program, sizes, draft.graphs.main.sizes.defaults, 0, ["numpy"])


@pytest.mark.parametrize(
    "path", [p for p in PATHS if THOROUGH or p.stem in DAILY], ids=lambda path: path.stem
)
def test_shipped_diagrams_agree_at_their_edges(path: Path) -> None:
    for block, settings in by_default(read_project(path), {}):
        edges = _edges(path, block, settings)
        assert edges.tried
        assert not edges.disagreements, edges.disagreements


def test_the_error_function_has_values_in_float16() -> None:
    program = xg.compile(source="dim B\nop E(x) = erf(x)\nblock F(x [B]) -> y [B] { x -> E : y }\n")
    x = np.linspace(-6, 6, 49).astype(np.float16)
    found = program.on_arrays("numpy").forward({}, {"x": x})[0]["y"]
    assert found.dtype == np.float16
    expected = [math.erf(float(each)) for each in x]
    np.testing.assert_allclose(found.astype(float), expected, atol=1e-3)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32"])
def test_numbers_are_rounded_to_what_a_type_holds(dtype: str) -> None:
    x = np.random.default_rng(0).standard_normal(100)
    once = round_to(x, dtype)
    assert np.array_equal(round_to(once, dtype), once)
    assert 0 < np.abs(once / x - 1).max() < 2**-7


def test_a_division_that_leaves_no_whole_number_is_refused() -> None:
    source = "dim B, D\nblock F(x [B, D]) -> y [B, D/2, 2] { x -> R : y }\n"
    graphs = xg.compile(source=source).graphs
    assert refusal(replace(graphs, numbers={"B": 0, "D": 4})) is None
    assert "D/2" in (refusal(replace(graphs, numbers={"B": 1, "D": 1})) or "")


def _point(formula: str) -> Point:
    source = f"dim B\nop F(x [B], z [B]) = {formula}\n"
    source += "block N(x [B], z [B]) -> y [B] {\n    x -> F<-z : y\n}\n"
    return point_at(replace(xg.compile(source=source).graphs, numbers={"B": 4}), 0)


@pytest.mark.parametrize(
    ("dtype", "error"), [("float64", 1e-6), ("float32", 3e-4), ("float16", 2.5)]
)
def test_an_error_in_a_small_gradient_is_found_beside_a_large_one(dtype: str, error: float) -> None:
    point = _point("100*x + z")
    point = point if dtype == "float64" else point.rounded(dtype)
    outputs, gradients = (
        {name: x.astype(dtype) for name, x in each.items()}
        for each in (point.expected.outputs, point.expected.gradients)
    )
    assert point.compare(outputs, gradients) is None
    found = point.compare(
        outputs, {**gradients, "z": gradients["z"] + gradients["z"].dtype.type(error)}
    )
    assert found is not None
    assert found.tensor == "dz"


def test_a_finite_slope_is_found_where_it_should_be_infinite() -> None:
    point = _point("sqrt(x) + z").zeros()
    with np.errstate(all="ignore"):
        outputs, gradients = point.expected.outputs, point.expected.gradients
    assert np.isinf(gradients["x"]).all()
    assert point.compare(outputs, {**gradients, "x": np.full(4, np.nan)}) is None
    found = point.compare(outputs, {**gradients, "x": np.zeros(4)})
    assert found is not None
    assert found.tensor == "dx"


def test_a_gradient_of_a_half_type_is_no_float32() -> None:
    point = _point("x + z").rounded("float16")
    outputs = {name: x.astype("float16") for name, x in point.expected.outputs.items()}
    found = point.compare(outputs, {n: x.astype("f4") for n, x in point.expected.gradients.items()})
    assert found is not None
    assert "is float32, not float16" in str(found)
