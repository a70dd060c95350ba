"""Loops on ranks of what was gathered, or is whole, with states that begin at numbers."""

from __future__ import annotations

from pathlib import Path

import pytest

import xg
from xg.frontend.project import read_project
from xg.verify.plan_proof import prove_ranks

NET = """\
dim B, S, D = 8

block Cell(x [B, D], W [D, D]) -> y [B, D] {
    state h [B, D] = zeros

    x -> •<=W -> ⊕<-h -> tanh : y
    next h = y
}

block Net(X [B, S, D]) -> Y [B, S, D] {
    param U, V, W, O [D, D]

    X -> •<=V : Z
    Z -> Cell<-W over S as forth         : F
    Z -> Cell<-W over S reversed as back : G
    F -> ⊕<-G -> •<=U -> tanh -> •<=O    : Y
}

mesh N_T = 2

plan TP of Net {
    V, U [D, D/N_T]
    Z    [B, S, D]
    O    [D/N_T, D]
}

plan Lone of Net {
    V [D, D/N_T]
    Z [B, S, D]
}
"""


def test_a_loop_of_what_was_gathered_is_proven(tmp_path: Path) -> None:
    (tmp_path / "net.xg").write_text(NET, encoding="utf-8")
    assert prove_ranks(read_project(tmp_path / "net.xg"), "Net", "TP", {}, 0).passed


def test_an_output_of_what_each_rank_gathers_is_refused(tmp_path: Path) -> None:
    (tmp_path / "net.xg").write_text(NET, encoding="utf-8")
    with pytest.raises(xg.DiagnosticError, match="leaves the program as a gathered value"):
        xg.compile(tmp_path / "net.xg", plan="Lone")
