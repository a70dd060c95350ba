"""The module of a rank with DTensors as parameters, under torch's optimizers and checkpoints."""

# pyright: reportUnknownMemberType=false

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from codegen.emitted.dtensor_rank import steps
from numpy.typing import NDArray

import xg
from xg_runtime.errors import InputError
from xg_runtime.ranks import simulate
from xg_runtime.ranks.dtensors import with_dtensors
from xg_runtime.ranks.launch import launch
from xg_runtime.ranks.task import Answer, Task

NET = """\
dim B = 4, D = 6, H = 8
mesh N_D = 2, N_T = 2
block Net(X, t [B, D]) -> loss [] {
    param W [D, H], b [H], V [H, D], c [D]
    X -> •<=W -> ⊕<-BC(b) -> tanh -> •<=V -> ⊕<-BC(c) -> MSE<-t : loss
}
plan TP of Net {
    W [D, H/N_T]
    b [H/N_T]
    V [H/N_T, D]
}
plan FSDP of Net {
    X, t [B/N_D, D]
    *    [_/N_D, ..] -> [..]
}
"""
FILE = Path(__file__).with_name("dtensor_rank.py")


def on_ranks(plan: str, rows: dict[str, NDArray[Any]], **options: object) -> list[Answer]:
    program = xg.compile(None, "Net", plan, source=NET)
    given = {"source": program.source("torch"), "load": "", "save": "", **options}
    return launch(Task(f"{FILE}:train", given, rows), program.mesh)


@pytest.mark.usefixtures("warm_ranks")
def test_training_goes_on_on_another_mesh(tmp_path: Path) -> None:
    """Two steps under TP, a checkpoint of torch, and a third under FSDP are three on one device."""
    draw = np.random.default_rng(0)
    rows = {"X": draw.normal(size=(4, 6)), "t": draw.normal(size=(4, 6))}
    alone = xg.compile(None, "Net", source=NET).load("torch").Model(seed=0, dtype=torch.float64)
    optimizer = torch.optim.AdamW(alone.parameters(), lr=0.1)
    losses, norms = steps(alone, optimizer, {n: torch.from_numpy(x) for n, x in rows.items()}, 3)
    saved = str(tmp_path / "two_steps")
    first = on_ranks("TP", rows, steps=2, save=saved)
    assert [each.facts["parts"]["W"] for each in first] == [[6, 4], [6, 4]]
    then = on_ranks("FSDP", rows, steps=1, load=saved)
    assert [each.facts["parts"]["W"] for each in then] == [[3, 8], [3, 8]]
    for one, other in zip(first, then, strict=True):
        assert one.facts["losses"] == pytest.approx(losses[:2], rel=1e-12)
        assert one.facts["norms"] == pytest.approx(norms[:2], rel=1e-12)
        assert one.facts["norm of shards"] < 0.99 * norms[1]  # so clipping has to see all ranks
        assert other.facts["losses"] == pytest.approx(losses[2:], rel=1e-12)
        for name, param in alone.named_parameters():
            assert np.allclose(other.arrays[name], param.detach().numpy(), rtol=1e-12, atol=1e-14)


def test_simulated_ranks_have_no_dtensors() -> None:
    module = xg.compile(None, "Net", "TP", source=NET).load("torch")

    def rank() -> None:
        with pytest.raises(InputError, match="DTensors need ranks that are processes"):
            with_dtensors(module.Model(seed=0), module.cuts())

    simulate({"N_T": 2}, rank)
