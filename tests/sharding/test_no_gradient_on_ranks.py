"""Values on ranks through which no gradient goes back: `stop` of whole ones, and numbers."""

from __future__ import annotations

from pathlib import Path

import pytest
from tier import THOROUGH
from verify.proof.daily import proof_of

import xg
from xg.cost.communication import traffic
from xg.frontend.project import read_project
from xg.verify.gradient_proof import prove

STOPPED = """\
dim B, D = 4
mesh N_D = 2, N_T = 2
op Half(w) = 0.5 * stop(w)
block Stopped(w [D, D]) -> v [D, D] {
    w -> stop : v
}
block Net(X [B, D], e [D], q [D]) -> Y [B, D] {
    param W, V, U [D, D]
    W -> Stopped : G
    X -> tanh -> •<=(U -> stop) -> •<=G -> •<=(V -> Half) : H
    e -> stop -> BC[B] -> ⊕<-H : z
    q -> tanh -> stop -> BC[B] -> ⊙<-z : Y
}
plan DP of Net {
    X [B/N_D, D]
}
plan TP of Net {
    G [D, D/N_T]
    V [D/N_T, D]
}
plan Both of Net {
    X [B/N_D, D]
    U [D, D/N_T]
    G [D/N_T, D]
}
"""


def proven(folder: Path, text: str, block: str, plan: str) -> bool:
    """Whether ranks agree with one device."""
    (folder / "net.xg").write_text(text, encoding="utf-8")
    return proof_of(read_project(folder / "net.xg"), block, plan, {}).passed


@pytest.mark.parametrize("plan", ["DP", "TP", "Both"])
def test_a_stopped_gradient_of_a_whole_value_is_proven(plan: str, tmp_path: Path) -> None:
    assert proven(tmp_path, STOPPED, "Net", plan)


GIVEN = """\
dim B, S = 4, D = 4
mesh N_T = 2, N_D = 2
block Sum(x [B, D], s [B, D]) -> y [B, D] {
    param W, V [D, D]
    x -> •<=W -> •<=V -> ⊕<-s : y
}
block Skip(x [B, D], s [B, D]) -> y [B, D], t [B, D] {
    param W, V [D, D]
    x -> •<=W -> tanh -> •<=V : y
    s -> ⊕<-y : t
}
block Placed(x [B, S, D], p [S, D]) -> y [B, S, D] {
    param W, V [D, D]
    x -> ⊕<-BC(p) -> •<=W -> tanh -> •<=V -> ⊕<-x : y
}
block Layer(x [B, D]) -> y [B, D] {
    param W, V [D, D]
    x -> •<=W -> tanh -> •<=V -> ⊕<-x : y
}
block Stop(X [B, D]) -> Z [B, D] {
    X, (X -> stop) -> Sum : Z
}
block Uses(X [B, D]) -> Z [B, D] {
    (X -> stop), X -> Sum as one : Z_1
    Z_1, (X -> tanh -> stop) -> Sum as two : Z_2
    Z_2, Z_1 -> Sum as three : Z
}
block Zeros(X [B, D]) -> Z [B, D] {
    fill[B, D](0) : s
    X, s -> Skip as one : y_1, s_1
    y_1, s_1 -> Skip as two : y_2, s_2
    s_2 -> ⊕<-y_2 : Z
}
block Sines(X [B, S, D]) -> Z [B, S, D] {
    sinusoid(S, D) : p
    X, p -> Placed : Z
}
block Row(X [B, D]) -> Z [B, D] {
    fill[B, D](1) -> 2 × Layer as layers -> ⊕<-X : Z
}
block Count(x [D]) -> y [D] {
    state h [D] = zeros
    x -> ⊕<-h : y
    next h = y
}
block Rounds(X [B, D]) -> Z [B, D] {
    fill[S, D](1) -> Count over S : Q, h
    Q -> sum[S] -> BC[B] : q
    X, q -> Sum : Z
}
plan TP of CALLED {
    W [D, D/N_T]
    V [D/N_T, D]
}
plan Both of CALLED {
    W [D, D/N_T]
    V [D/N_T, D]
}
plan Both of MAIN {
    X [B/N_D, REST]
}
"""
CALLED = {
    "Stop": "Sum",
    "Uses": "Sum",
    "Zeros": "Skip",
    "Sines": "Placed",
    "Row": "Layer",
    "Rounds": "Sum",
}


# Daily a plan each, by turns.
TAKING = [
    (block, plan)
    for place, block in enumerate(CALLED)
    for p, plan in enumerate(("TP", "Both"))
    if THOROUGH or place % 2 == p
]


@pytest.mark.parametrize(("block", "plan"), TAKING)
def test_a_call_with_rows_on_ranks_takes_numbers(block: str, plan: str, tmp_path: Path) -> None:
    """The sum behind the rows is whole, be it added to what has a gradient or to what has none."""
    text = GIVEN.replace("CALLED", CALLED[block]).replace("MAIN", block)
    text = text.replace("REST", "S, D" if block == "Sines" else "D")
    assert proven(tmp_path, text, block, plan)


SUMMED = """\
dim B, D = 4
mesh N_D = 2
op Stopped(x [B, D]) = stop(sum[B](x))
block Total(X [B, D]) -> m [D] {
    X -> sum[B] -> stop : m
}
block Net(X, U [B, D]) -> Y [B, D] {
    param W [D, D]
    X -> •<=W : H
    HOW : m
    U -> ⊙<-BC(m) : Y
}
plan DP of Net {
    X, U, H, Y [B/N_D, D]
}
"""
STOPS = {
    "a node": "H -> sum[B] -> stop",
    "an operator": "H -> Stopped",
    "a block": "H -> Total",
}


@pytest.mark.parametrize("how", STOPS.values(), ids=STOPS)
def test_nothing_is_sent_for_a_gradient_that_is_stopped(how: str, tmp_path: Path) -> None:
    text = SUMMED.replace("HOW", how)
    assert proven(tmp_path, text, "Net", "DP")
    placed = xg.compile(source=text, plan="DP", sizes={"B": 8}).distributed
    assert placed
    assert {each.direction for each in traffic(placed)} == {"forward"}
    (alone,) = xg.compile(source=text).costs()
    assert str(alone.cost.total.backward) == "B*D"  # of dU, and nothing of BC


@pytest.mark.parametrize("how", STOPS.values(), ids=STOPS)
def test_a_value_that_is_stopped_and_used_has_the_gradient_of_its_uses(
    how: str, tmp_path: Path
) -> None:
    text = SUMMED.replace("HOW", how).replace("⊙<-BC(m)", "⊙<-BC(m) -> ⊙<-H")
    assert proven(tmp_path, text, "Net", "DP")
    assert prove(read_project(tmp_path / "net.xg"), "Net", {}, 0).passed
