"""Programs of ranks on meshes of hundreds, on `meta` tensors: shapes and traffic, no numbers.

torch's "fake" process group has any number of ranks in one process, and its collectives send
nothing. Whatever a rank computes and sends is of the right shape, or an error.
"""

# torch says too little of its own types:
# pyright: reportUnknownMemberType=false

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from math import prod
from pathlib import Path
from typing import Any

import pytest
import torch
from runtime.ranks.alone import rank_of
from tier import THOROUGH

import xg
from xg.driver import Program
from xg.verify.rank_comparison import RankRun, TrafficCheck, count
from xg_runtime.ranks.process_mesh import ProcessMesh

MODELS = Path(__file__).parents[2] / "diagrams" / "models"
RANKS = 512
SIZES = {"B": 256, "S": 4096, "S_max": 4096, "D": 4096, "N_L": 2, "N_H": 32, "V": 2**16}
PRODUCTS: Mapping[str, Mapping[str, int]] = {
    "FSDP × CP × TP": {"N_D": 16, "N_S": 4, "N_T": 8},
    "HSDP × SP_VP": {"N_R": 4, "N_D": 16, "N_T": 8},
    "ZeRO1 × Ulysses": {"N_D": 16, "N_S": 32},
    "ZeRO2 × KV × TP": {"N_D": 16, "N_S": 4, "N_T": 8},
}
Tensors = dict[str, Any]


@cache
def program(plan: str, **mesh: int) -> Program:
    found = xg.compile(MODELS / "transformer.xg", plan=plan, sizes=SIZES, mesh=mesh)
    assert prod(found.mesh.values()) == RANKS
    return found


def on_meta(specs: Mapping[str, Any]) -> Tensors:
    """Tensors without numbers, of the shapes that a rank holds."""
    types = {"int": torch.int64, "float": torch.float32}
    return {
        name: torch.empty(spec.shape, dtype=types[spec.dtype], device="meta")
        for name, spec in specs.items()
    }


def sent(one: Program, mesh: ProcessMesh, *, kernels: bool) -> tuple[TrafficCheck, ...]:
    """Both passes of a rank: every result has its shape; what was sent beside the formulas."""
    module = one.load("torch", kernels=kernels)
    params, inputs = on_meta(one.params), on_meta(one.inputs)
    with mesh.counters.during("forward"):
        outputs, saved = module.forward(params, inputs, seed=0)
    wanted = {name: spec.shape for name, spec in one.outputs.items()}
    assert {name: tuple(x.shape) for name, x in outputs.items()} == wanted
    ones = {name: torch.ones_like(outputs[name]) for name in ("loss", "sent") if name in outputs}
    with mesh.counters.during("backward"):
        gradients = module.backward(params, saved, ones)
    for name, x in {**params, **inputs}.items():
        if x.is_floating_point():
            assert gradients[name].shape == x.shape, name
    counts = mesh.counters.counts.items()
    run = RankRun({}, {}, {key: (each.calls, each.elements) for key, each in counts})
    placed = one.fused_distributed if kernels else one.distributed
    assert placed is not None
    return count(placed, [run], bundled=kernels)


# The first has the kinds of cuts that the others have.
TRIED = list(PRODUCTS)[0 if THOROUGH else 1 :]


@pytest.mark.parametrize("plan", TRIED)
def test_ranks_of_512_send_what_formulas_say(plan: str) -> None:
    """The first rank with kernels, the last without; daily one of them, by turns."""
    one, turn = program(plan, **PRODUCTS[plan]), TRIED.index(plan) % 2
    ends = [(0, True), (RANKS - 1, False)]
    for number, kernels in ends if THOROUGH else ends[turn : turn + 1]:
        with rank_of(one.mesh, number) as mesh:
            found = sent(one, mesh, kernels=kernels)
        assert found
        assert all(each.agrees for each in found), found


def test_experts_on_512_ranks() -> None:
    sizes, mesh = {"B": 256, "S": 1024, "N_L": 2}, {"N_D": 64, "N_G": 4, "N_T": 2}
    one = xg.compile(MODELS / "mixtral.xg", plan="DP × EP", sizes=sizes, mesh=mesh)
    with rank_of(one.mesh, RANKS - 1) as here:
        assert all(each.agrees for each in sent(one, here, kernels=False))


def test_stages_of_512_ranks_fit_together() -> None:
    """PP × FSDP × SP: each stage takes what the one before it gives."""
    one = program("PP × FSDP × SP", N_PP=2, N_D=32, N_T=8)
    inner, given = RANKS // 2, None
    for place, stage in enumerate(one.stages):
        received = stage.inputs.get("received")
        assert (received and received.shape) == given
        with rank_of(one.mesh, place * inner + 77) as mesh:
            mesh.diverge("N_PP")
            assert mesh.lane == place
            assert all(each.agrees for each in sent(stage, mesh, kernels=False))
        given = stage.outputs["sent"].shape if "sent" in stage.outputs else None
    assert given is None


def test_a_part_of_another_shape_is_an_error() -> None:
    """Negative control: shapes are looked at without numbers too."""
    one = program("ZeRO1 × Ulysses", **PRODUCTS["ZeRO1 × Ulysses"])
    module, params = one.load("torch"), on_meta(one.params)
    params["layers.1.ffn.W_up"] = params["layers.1.ffn.W_up"][1:]
    with rank_of(one.mesh, 3), pytest.raises(ValueError, match="W_up should have shape"):
        module.forward(params, on_meta(one.inputs), seed=0)
