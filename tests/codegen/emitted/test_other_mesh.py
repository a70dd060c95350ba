"""A module for ranks refuses a mesh of other sizes than it was compiled for."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
import torch
from tests.sharding.test_many_ranks import rank_of

import xg
from xg_runtime.errors import InputError, RankError, RunError
from xg_runtime.ranks import simulate
from xg_runtime.ranks.mesh import check_mesh

FILE = """\
dim B, D = 12
mesh N_T = 2, N_D = 1

block F(X [B, D]) -> Y [B, D] {
    param W [D, D]

    X -> •<=W : Y
}

plan TP of F {
    W [D/N_T, D]
    X [B, D/N_T]
}

plan DP of F {
    X [B/N_D, D]
}
"""
BACKENDS = ["numpy", "torch"]


def array(backend: str, *shape: int) -> Any:  # noqa: ANN401 - of either library
    return torch.ones(shape) if backend == "torch" else np.ones(shape, np.float32)


@pytest.mark.parametrize("kernels", [False, True])
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("ranks", [1, 2, 3, 4])
def test_another_number_of_ranks(backend: str, ranks: int, kernels: bool) -> None:
    module = xg.compile(source=FILE, plan="TP").load(backend, kernels=kernels)
    params = {"W": array(backend, 6, 12)}

    def made() -> Any:  # noqa: ANN401 - of either library
        return module.init()["W"].shape

    def run() -> float:
        return float(module.forward(params, {"X": array(backend, 2, 6)})[0]["Y"][0, 0])

    if ranks == 2:
        assert simulate({"N_T": ranks}, made) == [(6, 12)] * 2
        assert simulate({"N_T": ranks}, run) == [12.0, 12.0]
        return
    said = f"compiled for N_T = 2, and this mesh has N_T = {ranks}"
    for wrong in (made, run):
        with pytest.raises(RankError, match=f"rank 0: the module was {said}"):
            simulate({"N_T": ranks}, wrong)


@pytest.mark.parametrize("backend", BACKENDS)
def test_an_axis_over_which_nothing_is_sent(backend: str) -> None:
    """The forward pass of replicas sends nothing, and its gradients are sums over too few."""
    module = xg.compile(source=FILE, plan="DP", mesh={"N_D": 2}).load(backend)

    def run() -> object:
        return module.forward({"W": array(backend, 12, 12)}, {"X": array(backend, 1, 12)})

    assert len(simulate({"N_D": 2}, run)) == 2
    with pytest.raises(RankError, match="compiled for N_D = 2, and this mesh has N_D = 4"):
        simulate({"N_D": 4}, run)
    with pytest.raises(RankError, match="the mesh has no axis N_D; its axes are: N_T"):
        simulate({"N_T": 2}, run)


def test_a_mesh_with_more_axes_runs_copies() -> None:
    module = xg.compile(source=FILE, plan="TP").load()
    assert len(simulate({"N_D": 2, "N_T": 2}, module.init)) == 4


def test_processes() -> None:
    module = xg.compile(source=FILE, plan="TP").load("torch")
    with (
        rank_of({"N_T": 4}, 1),
        pytest.raises(InputError, match="N_T = 2, and this mesh has N_T = 4"),
    ):
        module.init()


def test_no_mesh_at_all() -> None:
    module = xg.compile(source=FILE, plan="TP").load()
    said = re.escape("`xg_runtime.ranks.simulate({'N_T': 2}, function)`")
    with pytest.raises(RunError, match=f"there is none here: {said}"):
        module.init()
    with pytest.raises(RunError, match=said):
        check_mesh({"N_T": 2})


def test_a_module_of_one_device_asks_for_no_mesh() -> None:
    assert "check_mesh" not in xg.compile(source=FILE).source()
