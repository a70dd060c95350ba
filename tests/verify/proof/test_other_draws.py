"""Collectives that one draw of numbers does not show to be needed, tried at others."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from math import inf
from types import ModuleType
from typing import Any

import pytest

from xg import driver
from xg.frontend.project import parse_project
from xg.verify import plan_proof
from xg.verify.controls import Control, Trial, controls
from xg.verify.plan_proof import RankProof, prove_ranks
from xg.verify.rank_comparison import ArrayDifference

NET = b"""\
dim B, N, D = 2

block Net(X [B, N, D]) -> Y [B, D] {
    param W [D, D]

    X -> mean[N] : c
    X -> \xe2\x80\xa2<=W -> \xe2\x8a\x95<-BC[b, d -> b, n=N, d](c) -> ReLU -> sum[N] : Y
}

mesh N_S = 2

plan SP of Net {
    X [B, N/N_S, D]
    c [B, D]
}
"""
DEAD = 1  # a seed whose numbers leave every ReLU at zero


def proven(seed: int) -> RankProof:
    """The proof with two ReLUs on each of two ranks."""
    return prove_ranks(parse_project(NET), "Net", "SP", {"B": 1, "N": 2, "D": 1}, seed)


def said(found: Iterable[Control]) -> dict[str, str]:
    """The verdicts by what each collective makes."""
    return {each.code.partition(" = ")[0]: each.verdict for each in found}


@pytest.mark.parametrize("seed", range(8))
def test_a_dead_relu_hides_no_collective(seed: int) -> None:
    proof = proven(seed)
    assert proof.passed
    assert proof.floats
    assert said(proof.floats.controls)["c"] == "needed"


def test_what_no_draw_needs_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    real, last = driver.load, "return Y, NetSaved"

    def sabotaged(source: str, name: str) -> ModuleType:
        more = f'idle = all_reduce(c, "N_S")\n    {last}'
        return real(source.replace(last, more) if "xg_runtime.ranks" in source else source, name)

    monkeypatch.setattr(driver, "load", sabotaged)
    floats = proven(DEAD).floats
    assert floats
    verdicts = [each.verdict for each in floats.controls]
    assert verdicts == ["needed", "zeros", "not needed", "zeros", "zeros"]


def test_a_draw_at_which_ranks_are_wrong_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(_: object) -> Iterator[ArrayDifference]:
        yield ArrayDifference("Y", inf, 0, None)

    def without_right_ones(trial: Trial[Any], others: Iterable[Trial[Any]]) -> Iterator[Control]:
        return controls(trial, [replace(each, differences=wrong) for each in others])

    monkeypatch.setattr(plan_proof, "controls", without_right_ones)
    floats = proven(DEAD).floats
    assert floats
    assert said(floats.controls)["c"] == "not needed"


def test_an_exception_or_a_warning_is_no_number(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without one of its collectives a rank raises, or divides by zero: no number is wrong."""
    real, last = driver.load, "return Y, NetSaved"
    raises = 'if all_reduce(np.ones(1), "N_S") < 2: raise ValueError("alone")'
    divides = 'quotient = 1 / (all_reduce(np.ones(1), "N_S") - 1)'

    def sabotaged(source: str, name: str) -> ModuleType:
        more = f"{raises}\n    {divides}\n    {last}"
        return real(source.replace(last, more) if "xg_runtime.ranks" in source else source, name)

    monkeypatch.setattr(driver, "load", sabotaged)
    floats = proven(DEAD).floats
    assert floats
    verdicts = [each.verdict for each in floats.controls]
    assert verdicts == ["needed", "zeros", "not needed", "not needed", "zeros", "zeros"]
