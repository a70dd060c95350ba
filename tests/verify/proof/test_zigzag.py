"""Rings in zigzag: equal to one device, with as much of a causal mask for each rank in a round."""

from __future__ import annotations

from collections import Counter
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tier import THOROUGH
from verify.proof.daily import proof_of, rings

import xg
from xg.diagnostics.diagnostic import DiagnosticError
from xg.frontend.project import parse_project, read_project
from xg.ir.dim import Dim, symbol
from xg_runtime.ranks import local_shards, rank, simulate

MODEL = Path(__file__).parents[3] / "diagrams" / "models" / "transformer.xg"
RINGS = """\
dim B, N_H, S, D
mesh N_D = 2, N_S = 2

block Causal(X [B, S, D]; p = 0.1) -> Y [B, S, D] {
    param W_Q, W_K, W_V [D, D]

    X -> •<=W_Q -> RoPE : Q [B, S, D]
    X -> •<=W_K -> RoPE : K [B, S, D]
    X -> •<=W_V         : V [B, S, D]
    Q -> •<=T(K) -> SM(1/sqrt(D), causal) -> S -> DO(p) -> •<=V : Y
}

block All(X [B, S, D], shown [B, S, S] in 2) -> Y [B, S, D] {
    param W_K, W_V [D, D]

    X -> •<=W_K : K [B, S, D]
    X -> •<=W_V : V [B, S, D]
    X -> •<=T(K) -> SM<-shown -> S -> •<=V : Y
}

block Heads(X [B, N_H, S, D]; mask = none | causal) -> Y [B, N_H, S, D] {
    param W_Q, W_K, W_V [D, D]

    X -> •<=W_Q : Q [B, N_H, S, D]
    X -> •<=W_K : K [B, N_H, S, D]
    X -> •<=W_V : V [B, N_H, S, D]
    Q -> •<=T(K) -> SM(1/sqrt(D), mask) -> S -> •<=V : Y
}

plan Zigzag of Heads {
    X    [B, N_H, S/N_S, D] zigzag
    K, V [B, N_H, S, D] ring
}

plan Ring of Heads {
    X    [B, N_H, S/N_S, D]
    K, V [B, N_H, S, D] ring
}

plan Zigzag of Causal {
    X    [B, S/N_S, D] zigzag
    K, V [B, S, D] ring
}

plan Ring of Causal {
    X    [B, S/N_S, D]
    K, V [B, S, D] ring
}

plan Gathered of Causal {
    X    [B, S/N_S, D] zigzag
    K, V [B, S, D]
}

plan Rows of Causal {
    X    [B, S/N_D, D]
    K, V [B, S, D]
}

plan Zigzag of All {
    X     [B, S/N_S, D] zigzag
    shown [B, S/N_S, S]
    K, V  [B, S, D] ring
}

plan Ring of All {
    X     [B, S/N_S, D]
    shown [B, S/N_S, S]
    K, V  [B, S, D] ring
}
"""


@pytest.mark.parametrize(("block", "ranks", "kernels"), rings("Causal", "All"))
def test_a_ring_in_zigzag_is_attention(block: str, ranks: int, kernels: bool) -> None:
    """Rotated, causal and dropped, and with a mask of its own; each shift is needed."""
    parsed = parse_project(RINGS.encode())
    backends = ("numpy", "torch")
    assert proof_of(parsed, block, "Zigzag", {"N_S": ranks}, backends, kernels=kernels).passed


# Daily a plan, a mask and a length each meet each other once.
KERNELS = [
    (plan, mask, ranks)
    for p, plan in enumerate(("Ring", "Zigzag"))
    for m, mask in enumerate(("causal", "none"))
    for ranks in (2, 3)
    if THOROUGH or (p + m + ranks) % 2 == 0
]


@pytest.mark.parametrize(("plan", "mask", "ranks"), KERNELS)
def test_parts_by_torchs_own_kernel_are_merged(plan: str, mask: str, ranks: int) -> None:
    """Nothing is dropped and heads are an axis, as its kernel asks."""
    settings = {"N_S": ranks, "mask": mask}
    parsed = parse_project(RINGS.encode())
    assert proof_of(parsed, "Heads", plan, settings, ("torch",), kernels=True).passed


OTHER_LENGTHS = """\
dim B = 1, S, S_k, D = 2
mesh N_S = 2

block Cross(X [B, S, D], Z [B, S_k, D]) -> Y [B, S, D] {
    param W_K, W_V [D, D]

    Z -> •<=W_K : K [B, S_k, D]
    Z -> •<=W_V : V [B, S_k, D]
    X -> •<=T(K) -> SM(1/sqrt(D), causal) -> S -> •<=V : Y
}

plan Ring of Cross {
    X    [B, S/N_S, D]
    Z    [B, S_k/N_S, D]
    K, V [B, S_k, D] ring
}

plan Zigzag of Cross {
    X    [B, S/N_S, D] zigzag
    Z    [B, S_k/N_S, D] zigzag
    K, V [B, S_k, D] ring
}
"""


@pytest.mark.parametrize("plan", ["Ring", "Zigzag"])
@pytest.mark.parametrize("lengths", [(4, 8), (8, 4)], ids=["more keys", "more queries"])
def test_keys_and_queries_may_be_of_two_lengths(plan: str, lengths: tuple[int, int]) -> None:
    """The last query sees the last key; of more queries the first see none."""
    sizes = {"S": lengths[0], "S_k": lengths[1]}
    parsed = parse_project(OTHER_LENGTHS.encode())
    by_turns = (plan == "Ring") == (lengths == (4, 8))
    for kernels in (False, True) if THOROUGH else (by_turns,):
        backends = ("numpy", "torch")
        assert proof_of(parsed, "Cross", plan, sizes, backends, kernels=kernels).passed


def test_keys_may_be_gathered_from_both_ends() -> None:
    proof = proof_of(parse_project(RINGS.encode()), "Causal", "Gathered", {"N_S": 3})
    assert proof.passed


@pytest.mark.parametrize("plan", ["Gathered × Rows", "Rows × Gathered"])
def test_chunks_may_be_of_a_slice_of_another_axis(plan: str) -> None:
    """A gather over both is two moves: parts of parts are in no common order."""
    proof = proof_of(parse_project(RINGS.encode()), "Causal", plan, {})
    assert proof.passed
    assert proof.floats
    kinds = {(each.kind, each.over) for each in proof.floats.sent}
    assert {("all_gather", "N_S"), ("all_gather", "N_D")} <= kinds


# One layer has all that a plan does; with two layers Zigzag is proven in test_parallel.
FEW: dict[str, int] = {} if THOROUGH else {"N_L": 1}


# Learned positions are proven in test_parallel, as is that every shift is needed.
POSITIONS = ["sinusoidal", "rope", *(["learned"] if THOROUGH else [])]


@pytest.mark.parametrize("pos", POSITIONS)
def test_positions_are_those_of_the_chunks(pos: str) -> None:
    settings = {"pos": pos, "N_S": 4 if THOROUGH else 3, **FEW}
    proof = proof_of(read_project(MODEL), "LM", "Zigzag", settings)
    assert proof.passed
    assert proof.floats
    shifts = [each for each in proof.floats.controls if each.kind == "shift"]
    assert {each.verdict for each in shifts} == {"needed"}


# FSDP cuts the axes of DP: it is the same product over the same axes.
OTHERS = ["PP", "KV", *(["DP", "TP", "FSDP"] if THOROUGH else [])]


@pytest.mark.parametrize("plan", [f"Zigzag × {other}" for other in OTHERS])
def test_other_plans_join_it(plan: str) -> None:
    fewer = {"N_PP": 2, "N_S": 2, "N_L": 2} if "PP" in plan else FEW
    assert proof_of(read_project(MODEL), "LM", plan, {} if THOROUGH else fewer).passed


HEADS = """
plan Heads of LM {
    ids, t [B, S/N_S] zigzag
}

plan Heads of Attention {
    Q    [B, N_H/N_S, S, D_h]
    K, V [B, N_H/N_S, S_k, D_h]
    O    [B, S/N_S, D]
}
"""


@pytest.mark.parametrize("ranks", [2, 3] if THOROUGH else [3])
def test_chunks_are_exchanged_for_heads_and_back(ranks: int) -> None:
    """Of heads each rank has one from each end, too."""
    text = MODEL.read_text(encoding="utf-8") + HEADS
    settings = {"N_S": ranks, **FEW}
    proof = proof_of(parse_project(text.encode()), "LM", "Heads", settings)
    assert proof.passed
    assert proof.floats
    assert ("all_to_all", "N_S") in {(each.kind, each.over) for each in proof.floats.sent}


# ---- work ---------------------------------------------------------------------------------------


def scored(plan: str, ranks: int, backend: str) -> list[list[int]]:
    """How many scores each rank computes, in each round of the forward pass."""
    sizes = {"B": 2, "S": 4 * ranks, "D": 4}
    program = xg.compile(source=RINGS, block="Causal", plan=plan, sizes=sizes, mesh={"N_S": ranks})
    code: Any = program.load(backend)
    found: Counter[tuple[int, int]] = Counter()
    scores = code._scores_of_part

    def counting(*args: Any) -> Any:  # noqa: ANN401 - of either library
        z, (source, chunks) = scores(*args), args[-2:]
        owner = min(source, chunks - 1 - source) if chunks > ranks else source
        if z is not None:
            found[(rank("N_S") - owner) % ranks, rank("N_S")] += prod(z.shape)
        return z

    code._scores_of_part = counting
    X = np.random.default_rng(0).standard_normal((2, 4 * ranks, 4))
    whole = torch.tensor(X) if backend == "torch" else X

    def forward() -> None:
        params = code.init(0, whole.dtype, D=4)
        code.forward(params, local_shards({"X": whole}, code.cuts()))

    simulate({"N_S": ranks}, forward)
    return [[found[turn, each] for each in range(ranks)] for turn in range(ranks)]


@pytest.mark.parametrize("backend", ["numpy", "torch"])
@pytest.mark.parametrize("ranks", [2, 4])
def test_every_rank_scores_as_much_in_each_round(ranks: int, backend: str) -> None:
    chunk = 2 * 2 * 2  # of queries and of keys are two, in each of two texts
    rounds = scored("Zigzag", ranks, backend)
    assert rounds == [[3 * chunk] * ranks, *([[2 * chunk] * ranks] * (ranks - 1))]
    contiguous = scored("Ring", ranks, backend)  # negative control
    first, last = ([each[place] for each in contiguous] for place in (0, -1))
    assert first == [4 * chunk, *([0] * (ranks - 1))]
    assert last == [4 * chunk] * ranks


@pytest.mark.parametrize("ranks", [2, 4])
def test_the_price_is_the_work_of_the_slowest_rank(ranks: int) -> None:
    """Of a ring in a row it is all scores of its rows; in zigzag what was counted of these."""
    slowest = {plan: sum(map(max, scored(plan, ranks, "numpy"))) for plan in ("Ring", "Zigzag")}
    assert slowest["Ring"] == 2 * 4 * 4 * ranks
    share = slowest["Zigzag"] / slowest["Ring"]
    assert share == (2 * ranks + 1) / (4 * ranks)
    priced = {plan: ring_flops(plan, ranks) for plan in slowest}
    assert priced["Zigzag"] == pytest.approx(priced["Ring"] * share, rel=0.01)
    assert ring_flops("Zigzag", ranks, "All") == ring_flops("Ring", ranks, "All")


def ring_flops(plan: str, ranks: int, block: str = "Causal") -> float:
    """The operations of both passes of attention, of long texts."""
    sizes = {"B": 2, "S": 4_096, "D": 64}
    program = xg.compile(source=RINGS, block=block, plan=plan, sizes=sizes, mesh={"N_S": ranks})
    (report,) = program.costs("float32")
    rows = [row for row in report.blocks[0].rows if row.name.startswith("Ring")]
    return sum(
        dim.evaluate({**sizes, "N_S": ranks})
        for row in rows
        for dim in (row.amount.forward, row.amount.backward)
    )


# ---- refusals -----------------------------------------------------------------------------------


CONV = """\
dim B, S, D = 4
mesh N_S = 2

block Net(X [B, S, D]) -> Y [B, S, D] {
    param K [3, D, D]

    X -> conv[S](K, causal) : Y
}

plan Zigzag of Net {
    X [B, S/N_S, D] zigzag
}
"""
LOOP = """\
dim B, S, D = 4
mesh N_S = 2

block Cell(x [B, D]) -> y [B, D] {
    state h [B, D] = zeros

    x -> ⊕<-h : y
    next h = y
}

block Net(X [B, S, D]) -> Y [B, S, D] {
    X -> Cell over S : Y
}

plan Zigzag of Net {
    X [B, S/N_S, D] zigzag
}
"""


@pytest.mark.parametrize(
    ("text", "reason"),
    [(CONV, "the axis whose windows overlap is cut"), (LOOP, "rounds must run in order")],
    ids=["conv", "loop"],
)
def test_what_needs_neighbors_is_refused(text: str, reason: str) -> None:
    """Windows and loops over positions meet those of another chunk."""
    with pytest.raises(DiagnosticError) as refused:
        xg.compile(source=text, block="Net", plan="Zigzag")
    assert reason in str(refused.value)


def test_a_rank_in_zigzag_computes_a_half_of_the_scores_and_a_little(tmp_path: Path) -> None:
    """2N + 1 of 4N of those that the last rank of a plain ring has; rows have theirs as there."""
    path = tmp_path / "rings.xg"
    path.write_text(RINGS, encoding="utf-8")
    sizes = {"B": 2, "S": 64, "D": 4}

    def attention(plan: str) -> Dim:
        program = xg.compile(path, block="Causal", plan=plan, sizes=sizes, mesh={"N_S": 4})
        (report,) = program.costs("float32")
        rows = {row.name: row.amount for block in report.cost.blocks for row in block.rows}
        return rows["Ring : Y"].forward

    of_rows, n = symbol("B") * symbol("S") * 6 / symbol("N_S"), symbol("N_S")
    scores = attention("Ring") - of_rows
    assert attention("Zigzag") == scores * (n * 2 + 1) / (n * 4) + of_rows
