"""The sends of a pipeline of four stages, by hand: to neighbors, and between holders of a tie."""

from __future__ import annotations

import pytest

import xg
from xg.cost.communication import sends

FILE = """\
dim B, D = 4, V = 5, N_L = 4
mesh N_PP = 4

block LM(ids [B] in V, t [B] in V) -> loss [] {
    param E [V, D]

    ids -> Emb(E) : X
      -> N_L × Layer as layers -> •<=T(E) : Z
    Z, t -> CE : loss
}

block Layer(X [B, D]) -> Y [B, D] {
    param W [D, D]

    X -> •<=W -> tanh : Y
}

plan PP of LM {
    layers [N_L/N_PP]
}
"""
EXPECTED = [
    {("forward", 0, 1, "B·D"), ("shared", 0, 3, "D·V")},
    {("forward", 1, 2, "B·D"), ("backward", 1, 0, "B·D")},
    {("forward", 2, 3, "B·D"), ("backward", 2, 1, "B·D")},
    {("backward", 3, 2, "B·D"), ("shared", 3, 0, "D·V")},
]


@pytest.mark.parametrize("stage", range(4))
def test_sends_of_a_stage(stage: int) -> None:
    program = xg.compile(source=FILE, block="LM", plan="PP").stages[stage]
    placed = program.distributed
    assert placed is not None
    numbers = {"B": 7, "D": 4, "V": 5}
    found = {
        (each.direction, each.source, each.target, int(each.payload.evaluate(numbers)))
        for each in sends(placed)
    }
    values = {"B·D": 28, "D·V": 20}
    assert found == {(*way, values[size]) for *way, size in EXPECTED[stage]}
