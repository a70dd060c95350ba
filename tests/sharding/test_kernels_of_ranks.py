"""Cut programs keep their kernels: on every rank fused and readable code compute the same."""

# torch says too little of its own types:
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from backends import as_arrays_of, writing
from numpy.typing import NDArray

import xg
import xg_runtime.ranks as ranks
from xg.verify.reference.interpret import initial

Arrays = dict[str, NDArray[Any]]
FILE = Path(__file__).parents[2] / "diagrams" / "models" / "transformer.xg"
SIZES = {"B": 4, "S": 6, "V": 12, "D": 12, "N_L": 1, "N_H": 6, "S_max": 8, "D_ff": 18}
MESH = {"N_D": 2, "N_T": 3}
TOLERANCES = {"float64": 1e-12, "float32": 1e-5}


@cache
def program() -> xg.Program:
    return xg.compile(FILE, sizes=SIZES, mesh=MESH, plan="DP_TP")


@cache
def compiled(backend: str, kernels: bool) -> ModuleType:
    return program().load(backend, kernels=kernels)


def step(backend: str, kernels: bool, arrays: Arrays, seed: int | None) -> Arrays:
    """Outputs and gradients of a rank, given what all of them have together."""
    module = compiled(backend, kernels)
    own = as_arrays_of(backend)
    given: dict[str, Any] = {name: own(array) for name, array in arrays.items()}
    mine = ranks.local_shards(given, module.cuts())
    inputs = {name: mine.pop(name) for name in ("ids", "t")}
    d_outputs = {"loss": mine.pop("dloss")}
    outputs, saved = module.forward(mine, inputs, seed=seed)
    found = {**outputs, **module.backward(mine, saved, d_outputs)}
    return {name: np.asarray(array) for name, array in found.items()}


@pytest.mark.parametrize("dtype", TOLERANCES)
@pytest.mark.parametrize("seed", [None, 3])
@pytest.mark.parametrize("backend", writing("ranks"))
def test_kernels_of_a_rank_compute_what_their_bodies_do(
    backend: str, seed: int | None, dtype: str
) -> None:
    random = np.random.default_rng(0)
    shape = (SIZES["B"], SIZES["S"])
    whole = initial(xg.compile(FILE, sizes=SIZES).graphs, 1)
    arrays = {name: array.astype(dtype) for name, array in whole.items()}
    arrays |= {name: random.integers(0, SIZES["V"], shape) for name in ("ids", "t")}
    arrays["dloss"] = np.ones((), dtype)

    def rank() -> tuple[Arrays, Arrays]:
        return step(backend, True, arrays, seed), step(backend, False, arrays, seed)

    for fused, plain in ranks.simulate(MESH, rank):
        assert fused.keys() == plain.keys()
        size = max(float(np.linalg.norm(array)) for array in plain.values())
        for name, array in plain.items():
            assert fused[name].dtype == array.dtype == dtype
            assert np.linalg.norm(fused[name] - array) < TOLERANCES[dtype] * size, name


@pytest.mark.parametrize("backend", writing("ranks"))
def test_what_is_drawn_or_averaged_in_part_has_a_kernel(backend: str) -> None:
    source = program().source(backend, kernels=True)
    assert re.search(r"  attention_with_part_of_dropout\(\s+Q,", source)
    assert 'mesh_places((-4, "N_D"), (-3, "N_T")),\n' in source
    assert re.search(r"^ +dQ, dK, dV = \([^=]*d_attention_with_dropout\(", source, re.M)
    assert "loss_i, loss_i_lse = cross_entropy(Z, t, B * S)" in source
    operands = ("dloss", "saved.Z", "saved.t", "saved.loss_i_lse", "B * S")
    assert re.search(
        r" d_cross_entropy\([^\n]*\s*" + r",\s+".join(map(re.escape, operands)), source
    )
    assert re.search(r"torch\.where\((?!outside)", source) is None  # support checks integers by it
    assert "np.where(visible" not in source
