"""Loops on several ranks: rounds compute parts, and send nothing."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from sharding.modules import generated
from sharding.ranks import Arrays, interpreted

import xg
from xg.frontend.project import parse_project, read_project
from xg.verify.plan_proof import prepared, prove_ranks, select_proofs
from xg.verify.reference.interpret import initial

NET = """\
dim B, S, D = 6, T = 5
mesh N_D = 2, N_T = 3

block Fading(x [B, D], λ [D], w [B, D]) -> y [B, D], z [B, D] {
    state h [B, D] = zeros, n [B, D] = ones

    h -> ⊙<-BC(λ) -> ⊕<-x -> ⊙<-w : y
    n -> ⊙<-x -> tanh             : z
    next h = y
    next n = z
}

block Squared(x [B, D]) -> y [B, D] {
    x -> ⊙<-x : y
}

block Net(X [B, S, D], h_0 [B, D]) -> Y [B, S, D], h_1 [B, D] {
    param λ [D], U, W [D, D]

    X -> •<=U                                      : A [B, S, D]
    A, λ, h_0 -> Fading(h=h_0) over S as forth     : F, G [B, S, D], h_S, n_S
    F, λ, n_S -> Fading over S reversed as back    : H, J, h_1, n_1
    G -> ⊕<-H -> ⊕<-J -> Squared over S as squared : Q [B, S, D]
      -> •<=W                                      : Y
}

plan DP of Net {
    X   [B/N_D, S, D]
    h_0 [B/N_D, D]
}

plan TP of Net {
    U   [D, D/N_T]
    λ   [D/N_T]
    h_0 [B, D/N_T]
    W   [D/N_T, D]
}

plan Both = DP × TP
"""
SIZES = {"B": 4, "S": 5}


def differences(
    one: xg.Program, many: xg.Program, params: Arrays, inputs: Arrays
) -> dict[str, dict[str, float]]:
    module = many.load(kernels=True)
    return {
        "readable": generated(one, many, params, inputs),
        "kernels": generated(one, many, params, inputs, module=module),
        "interpreted": interpreted(one, many, params, inputs),
    }


@pytest.mark.parametrize("plan", ["DP", "TP", "Both"])
def test_ranks_agree_with_one_device(plan: str, tmp_path: Path) -> None:
    """States, both directions, a state that the call gives, and operands that rounds share."""
    (tmp_path / "net.xg").write_text(NET, encoding="utf-8")
    one = xg.compile(tmp_path / "net.xg", sizes=SIZES)
    many = xg.compile(tmp_path / "net.xg", sizes=SIZES, plan=plan)
    random = np.random.default_rng(0)
    inputs = {"X": random.normal(size=(4, 5, 6)), "h_0": random.normal(size=(4, 6))}
    params = initial(one.graphs, 1)
    for way, found in differences(one, many, params, inputs).items():
        assert max(found.values()) < 1e-12, way
        assert len(found) > len(params), way


def test_each_round_is_held_against_that_of_one_device(tmp_path: Path) -> None:
    """Rounds have one path: their order says which is which."""
    (tmp_path / "net.xg").write_text(NET, encoding="utf-8")
    proof = prove_ranks(read_project(tmp_path / "net.xg"), "Net", "DP × TP", {}, seed=0)
    assert proof.passed
    assert proof.floats
    assert proof.floats.edges
    assert proof.floats.edges.first is None
    assert {each.verdict for each in proof.floats.controls} == {"needed"}


def test_operands_that_rounds_share_are_summed_once(tmp_path: Path) -> None:
    """The gradient of λ crosses the ranks behind each loop, not in its rounds."""
    (tmp_path / "net.xg").write_text(NET, encoding="utf-8")
    many = xg.compile(tmp_path / "net.xg", sizes=SIZES, plan="DP")
    text = many.source("numpy")
    backward = text[text.index("def d_net(") :]
    rounds = text[text.index("def d_fading(") : text.index("def d_net(")]
    assert "all_reduce" in backward
    assert "all_reduce" not in rounds


COUNTING = """\
dim B, S, D = 4, F = 6
mesh N_T = 2

op Later(h) = h + 1

block Cell(x [B, F]) -> y [B, F] {
    state h [B, F] = zeros
    state n [F] = ones  # which no operand changes
    state k [F] = ones  # nor a gradient reaches

    x -> ⊕<-h -> ⊙<-BC(n) -> ⊙<-BC(k) -> tanh : y
    n -> Later                                : m
    k -> Later -> stop                        : l
    next h = y
    next n = m
    next k = l
}

block Net(X [B, S, D], t [B, S, D]) -> Y [B, S, D] {
    param W [D, F], V [F, D]

    X -> •<=W          : U [B, S, F]
    U -> Cell over S   : Q, h, n, k
    Q -> ⊕<-U -> •<=V -> ⊕<-t : Y
}

plan DP of Net {
    X, t [B/N_T, S, D]
}

plan Rows of Net {
    W [D/N_T, F]
}

plan TP of Net {
    W [D, F/N_T]
    V [F/N_T, D]
}
"""


@pytest.mark.parametrize("plan", ["DP", "Rows", "TP"])
def test_states_that_begin_at_numbers_settle(plan: str) -> None:
    """As what is summed before the loop and computed once, or as parts of what all count."""
    proof = prove_ranks(parse_project(COUNTING.encode()), "Net", plan, {}, seed=0)
    assert proof.passed


SUMMED = """\
dim B, S, D = 4, F = 6
mesh N_T = 2

op Later(h) = h + 1

block Count(x [B, F]) -> y [F] {
    state h [F] = zeros
    h -> Later : y
    next h = y
}

block Net(X [B, S, D], T [B, S, F]) -> Z [B, S, F] {
    param W [D, F]

    T -> Count over S                            : Q [F, S], h
    X -> •<=W -> mean[B]                         : P [S, F]  # a sum of what ranks have terms of
    P -> ⊕<-T(Q) -> BC[s, f -> b=B, s, f] -> ⊙<-T : Z
}

plan Part of Net {
    T [B/N_T, S, F]
    W [D/N_T, F]
}
"""


def test_a_sum_is_made_beside_what_each_rank_uses() -> None:
    """Nothing else fits: a count is used by each rank for its part of the batch."""
    proof = prove_ranks(parse_project(SUMMED.encode()), "Net", "Part", {}, seed=0)
    assert proof.passed


BELOW = """\
dim B, S, D = 3
mesh N_D = 2

block Inner(x [B, D], W [D, D]) -> y [B, D] {
    x -> •<=W : y
}

block Mid(x [B, D], W [D, D]) -> y [B, D] {
    x, W -> Inner as first  : z
    z, W -> Inner as second : y
}

block Cell(x [B, D], W [D, D], b [D]) -> y [B, D] {
    state h [B, D]

    x, W -> Mid -> ⊕<-h -> ⊕<-BC(b) -> tanh : y
    next h = y
}

block Net(X [B, S, D]) -> H [B, S, D] {
    param W [D, D], b [D]

    X, W, b -> Cell over S : H
}

plan DP of Net {
    X [B/N_D, S, D]
}
"""
TWICE = BELOW.replace("x, W -> Mid -> ⊕", "x, W -> Mid -> •<=W -> ⊕")


@pytest.mark.parametrize("text", [BELOW, TWICE])
def test_parameters_that_a_loop_gives_on_are_summed_once_for_all_rounds(text: str) -> None:
    proof = prove_ranks(parse_project(text.encode()), "Net", "DP", {}, 0, ["numpy", "torch"])
    assert proof.passed
    assert proof.floats is not None
    assert len(proof.floats.controls) == 2  # of W and of b


OWN = """\
dim B, S, D = 4
mesh N_D = 2, N_T = 2

op Next(h [.., D], x [.., D]; a [D]) = exp(-exp(a)) * h + x

block Cell(x [B, D]) -> y [B, D] {
    param a [D], W [D, D], c [D] frozen
    state h [B, D]

    h, x -> Next(a)                           : g
    g -> •<=W -> ⊕<-BC(c) -> DO(0.5) -> tanh : y
    next h = y
}

block Net(X [B, S, D]) -> Y [B, S, D] {
    param V [D, D]

    X -> •<=V -> Cell over S as one -> Cell over S reversed as other : Y
}

plan DP of Net {
    X [B/N_D, S, D]
}

plan FSDP of Net {
    X       [B/N_D, S, D]
    one.W   [D, D/N_D] -> [D, D]
    other.a [D/N_D] -> [D]
}

plan TP of Net {
    V       [D, D/N_T]
    one.a   [D/N_T]
    one.W   [D/N_T, D]
}
"""
OWN_SENDS = {  # forward and backward, calls of each kind
    "DP": {("backward", "all_reduce"): 5},
    "FSDP": {
        ("forward", "all_gather"): 2,
        ("backward", "all_reduce"): 3,
        ("backward", "reduce_scatter"): 2,
    },
}


@pytest.mark.parametrize("plan", OWN_SENDS)
@pytest.mark.parametrize("kernels", [False, True])
def test_parameters_of_a_cell_are_sent_once_for_all_rounds(plan: str, kernels: bool) -> None:
    """Gradients are summed after the loop, and parts are gathered before it, each once."""
    project = parse_project(OWN.encode())
    proof = prove_ranks(project, "Net", plan, {}, 0, ["numpy", "torch"], kernels=kernels)
    assert proof.passed
    assert proof.floats is not None
    sent = {(each.direction, each.kind): each.said[0] for each in proof.floats.sent}
    assert sent == OWN_SENDS[plan]
    assert {each.verdict for each in proof.floats.controls} == {"needed"}


@pytest.mark.parametrize(("name", "block"), [("mamba", "Mamba"), ("mamba2", "Mamba2")])
def test_a_selective_state_space_is_trained_on_parts_of_the_batch(name: str, block: str) -> None:
    text = f"use {block} from {name}\nmesh N_D = 2\nplan DP of {block} {{ ids, t [B/N_D, S] }}\n"
    project = parse_project(text.encode())
    ((found, plan, settings),) = select_proofs(project, None, "DP", {"N_L": 1})
    assert (found, plan) == (block, "DP")
    assert prove_ranks(project, block, plan, settings, 0, exact=False).passed
    edges = prepared(project, block, plan, {**settings, "S": 1})
    assert max(edges.case.sizes.values()) < 100


# ---- states that begin at a number ---------------------------------------------------------------

LATER = """\
dim B, S, D
mesh N_T = 2

block Cell(x [B, D], p [D]) -> y [B, D] {
    state h [B, D] = 0.5
    state n [B, D] = ones

    h -> tanh                   : a
    x -> ⊕<-a -> ⊙<-BC(p)       : y
    next h = y
    next n = a
}

block Net(X [B, S, D]) -> Y [B, S, D] {
    param W [D, D], p [D]
    X -> •<=W                : A [B, S, D]
    A, p -> Cell over S as cell : Y, h_S, n_S
}

plan Columns of Net {
    W [D, D/N_T]
    p [D/N_T]
}
plan Stored of Net {
    * [_/N_T, ..] -> [..]
    X [B/N_T, S, D]
}
plan Rows of Net {
    X [B/N_T, S, D]
}
"""


@pytest.mark.parametrize("plan", ["Columns", "Stored", "Rows"])
def test_a_state_takes_what_another_becomes_in_a_later_round(plan: str) -> None:
    assert prove_ranks(parse_project(LATER.encode()), "Net", plan, {}, 0, exact=False).passed
