"""Calls on ranks that are given numbers, which have no gradient: `fill`."""

from __future__ import annotations

from pathlib import Path

import pytest

from xg.frontend.project import read_project
from xg.verify.plan_proof import prove_ranks

NET = """\
dim B, S, D = 6

block Gated(x [B, D], p [B, D], s [D]) -> y [B, D] {
    param W [D, D]

    x -> ⊙<-p -> ⊕<-BC(s) -> •<=W : y
}

block Layer(x [B, D]) -> y [B, D] {
    param W [D, D]

    x -> •<=W -> tanh -> ⊕<-x : y
}

block Cell(x [B, D], p [B, D], s [D]) -> y [B, D] {
    state h [B, D] = ones
    state g [B, D]

    x -> ⊙<-p -> ⊙<-h -> ⊕<-BC(s) -> ⊕<-g : y
    next h = y
    next g = y
}

block Once(x [B, D]) -> y [B, D] {
    fill[B, D](2) : p
    fill[D](3)    : s
    x, p, s -> Gated : y
}

block Row(x [B, D]) -> y [B, D] {
    fill[B, D](1) -> 2 × Layer as layers -> ⊙<-x : y
}

block Loop(X [B, S, D]) -> Y [B, S, D] {
    fill[B, D](2)   : p
    fill[D](3)      : s
    fill[B, D](0.2) : g_0
    X, p, s -> Cell(g=g_0) over S : Y, h, g
}

mesh N_D = 2

plan DP of Once {
    x [B/N_D, D]
}

plan DP of Row {
    x [B/N_D, D]
}

plan DP of Loop {
    X [B/N_D, S, D]
}
"""


@pytest.mark.parametrize("kernels", [False, True])
@pytest.mark.parametrize("block", ["Once", "Row", "Loop"])
def test_a_call_on_ranks_takes_numbers(block: str, kernels: bool, tmp_path: Path) -> None:
    (tmp_path / "net.xg").write_text(NET, encoding="utf-8")
    project = read_project(tmp_path / "net.xg")
    assert prove_ranks(project, block, "DP", {}, 0, kernels=kernels).passed
