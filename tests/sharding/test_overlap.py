"""Sums that are begun early and awaited late equal those that are called in place."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path

import numpy as np
import pytest
from tier import THOROUGH

import xg
import xg_runtime.ranks as ranks
from xg.codegen.emit import block_functions
from xg.codegen.emit.array_ops import Overlap, Step
from xg.ir.graph import Apply
from xg.verify.reference import random as invented
from xg.verify.reference.interpret import initial
from xg_runtime.module import Arrays

MODEL = Path(__file__).parents[2] / "diagrams" / "models" / "transformer.xg"
SIZES = {"B": 4, "S": 6, "D": 12, "N_H": 6, "N_L": 2, "V": 18, "S_max": 12}


def compiled(plan: str) -> xg.Program:
    return xg.compile(MODEL, plan=plan, sizes=SIZES, mesh={"N_D": 2, "N_T": 3})


def in_place(steps: Sequence[Step], sent: Collection[Apply]) -> Overlap:
    """Instead of `overlap`: nothing is moved, nothing is only begun."""
    del sent
    return Overlap(tuple(steps), frozenset())


def results(program: xg.Program) -> list[Arrays]:
    """Outputs and gradients of every rank."""
    alone, module = program.on_one_device.graphs, program.load(kernels=True)
    params, inputs = initial(alone), invented.inputs(alone, 0)
    where = module.cuts()

    def rank() -> Arrays:
        mine = ranks.local_shards(params, where)
        outputs, saved = module.forward(mine, ranks.local_shards(inputs, where), seed=1)
        grads = module.backward(mine, saved, {name: np.ones_like(y) for name, y in outputs.items()})
        return {**outputs, **{f"d/{name}": grad for name, grad in grads.items()}}

    return ranks.simulate(program.graphs.mesh, rank)


@pytest.mark.parametrize("plan", ["SP", "All", *(["DP_TP"] if THOROUGH else [])])
def test_results_are_the_same_bits(plan: str, monkeypatch: pytest.MonkeyPatch) -> None:
    early = compiled(plan)
    assert "start_" in early.source(kernels=True)
    found = results(early)
    monkeypatch.setattr(block_functions, "overlap", in_place)
    late = compiled(plan)
    assert "start_" not in late.source(kernels=True)
    for mine, theirs in zip(found, results(late), strict=True):
        assert mine.keys() == theirs.keys()
        assert all(np.array_equal(mine[name], theirs[name]) for name in mine)
