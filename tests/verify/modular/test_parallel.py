"""Plans against one device, exactly; and every collective of a rank's program counts."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest
from tier import THOROUGH
from verify.modular.parallel import (
    Mistake,
    Planted,
    doubled,
    elsewhere,
    first_difference,
    largest,
    mean,
    missing,
    right,
)

import xg
from xg.ir.graph import IRProgram
from xg.verify.reference.residues import PRIMES, Outcome, RunInputs, run_drawn

PLANS = Path(__file__).parents[2] / "programs" / "08_plans.xg"
SIZES = {"B": 6, "S": 6, "V": 12, "D": 12, "N_H": 6, "N_L": 1, "S_max": 12}
NAMES = ("TP", "DP", "VP", "Stream", "FSDP", "DP_TP", "SP", "Everything")


@cache
def one_device(prime: int = PRIMES[0], seed: int = 0) -> tuple[RunInputs, Outcome]:
    return run_drawn(xg.compile(PLANS, "LM", sizes=SIZES).graphs, prime, seed)


@cache
def planned(plan: str, n_d: int, n_t: int) -> IRProgram:
    mesh = {"N_D": n_d, "N_T": n_t}
    return xg.compile(PLANS, "LM", plan=plan, sizes=SIZES, mesh=mesh).graphs


@pytest.mark.parametrize("mesh", [(2, 3), (3, 2)] if THOROUGH else [(2, 3)], ids=str)
@pytest.mark.parametrize("plan", NAMES)
def test_a_plan_computes_exactly_what_one_device_computes(plan: str, mesh: tuple[int, int]) -> None:
    prime = PRIMES[NAMES.index(plan) % len(PRIMES)]
    assert first_difference(planned(plan, *mesh), *one_device(prime)) is None


MISTAKES: tuple[Mistake, ...] = (missing, doubled, mean, largest, elsewhere)


@pytest.mark.parametrize("plan", ["SP", "FSDP", "Everything"])
def test_every_collective_counts(plan: str) -> None:
    """Each of them goes wrong once, one in this way and the next in another."""
    many = planned(plan, 2, 2)
    given, expected = one_device()
    harmless = Planted(given.prime, right, 0)
    assert first_difference(many, given, expected, harmless.arithmetic()) is None
    assert harmless.count > len(MISTAKES)
    for place in range(harmless.count):
        mistake = MISTAKES[place % len(MISTAKES)]
        planted = Planted(given.prime, mistake, place)
        found = first_difference(many, given, expected, planted.arithmetic())
        assert found or planted.of_zeros, f"{mistake.__name__}: {planted.said}, number {place}"
