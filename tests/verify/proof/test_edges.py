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
from xg.verify.edges.point import round_to
from xg.verify.edges.proof import EdgeProof, try_edges
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
