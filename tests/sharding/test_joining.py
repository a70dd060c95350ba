"""Moves over several mesh axes are joined into one: they send less, and stay sound."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pytest
from sharding.modules import generated

import xg
from xg.cost.communication import Sending, factor, sent, traffic
from xg.driver import Program
from xg.passes.shard import check, join
from xg.verify.reference.interpret import initial

LLAMA = Path(__file__).parents[2] / "diagrams" / "models" / "llama.xg"
SIZES = {"B": 2, "S": 12, "D": 24, "D_ff": 12, "N_H": 12, "N_KV": 6, "N_L": 2, "V": 12}
MESH = {"N_D": 2, "N_G": 2, "N_T": 3}


@cache
def llama(plan: str | None, block: str = "Layer") -> Program:
    return xg.compile(LLAMA, block, plan=plan, sizes=SIZES, mesh=MESH if plan else None)


def sums(plan: str, kind: str = "all_reduce") -> list[Sending]:
    placed = llama(plan).distributed
    assert placed
    return [each for each in traffic(placed) if each.kind == kind]


def test_a_layer_cut_over_two_axes_sends_four_sums() -> None:
    """Two in each pass, as over one axis; keys that are cut less give their share once."""
    found = sums("TP")
    assert [(each.direction, each.over, str(each.payload)) for each in found] == [
        ("forward", "N_G*N_T", "B*D*S"),
        ("forward", "N_G*N_T", "B*D*S"),
        ("backward", "N_G*N_T", "B*D*S"),
        ("backward", "N_G*N_T", "B*D*S"),
    ]


@pytest.mark.parametrize("kind", ["all_gather", "reduce_scatter"])
def test_what_two_axes_cut_is_gathered_and_scattered_at_once(kind: str) -> None:
    stream = [each for each in sums("SP", kind) if str(each.payload) == "B*D*S"]
    assert [each.over for each in stream] == ["N_G*N_T"] * 4


def test_a_sum_over_two_axes_costs_a_ring_around_both() -> None:
    """So many times its payload: 2(n-1)/n for n ranks, less than for one axis after the other."""
    mesh = {"N_G": 2, "N_T": 2}
    together = factor("all_reduce", "N_G*N_T", "ring") * 2
    apart = factor("all_reduce", "N_G", "ring") + factor("all_reduce", "N_T", "ring")
    assert (together.evaluate(mesh), apart.evaluate(mesh)) == (3, 2)


@pytest.mark.parametrize("plan", ["TP", "SP", "DP_TP", "FSDP_TP"])
def test_the_joined_program_is_sound_on_every_axis(plan: str) -> None:
    placed = llama(plan, "Llama").distributed
    assert placed
    check(placed)
    again = join(placed)
    assert [len(b.steps) for b in again.backwards.values()] == [
        len(b.steps) for b in placed.backwards.values()
    ]


def test_a_share_that_every_rank_adds_is_found() -> None:
    """Without `first_rank_only` the gradient of X holds the share of the keys N_T times."""
    one, many = llama(None), llama("TP")
    params = initial(one.graphs)
    inputs = {"X": np.random.default_rng(0).standard_normal((2, 12, 24))}
    assert max(generated(one, many, params, inputs).values()) < 1e-12
    module = many.load()
    module.first_rank_only = lambda x, over: x  # type: ignore[attr-defined]
    wrong = generated(one, many, params, inputs, module=module)
    assert wrong["dg_1"] > 1e-3


def test_costs_name_both_axes() -> None:
    parts = sent(llama("TP").distributed, "float32")
    texts = {part.formula("ring") for part in parts if part.over == "N_G*N_T"}
    assert texts == {"2*(N_G*N_T - 1)/(N_G*N_T)*B*D*S"}
