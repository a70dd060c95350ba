"""Plans against one device: every shipped plan of the language model, blocks written by hand."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest
from frontend.plans.shipped import MODELS, tried
from tier import THOROUGH
from verify.proof.daily import PRIMES, proof_of, rings
from verify.proof.sweep import axes_of_plans, jobs

import xg
from xg.cost.communication import traffic
from xg.diagnostics.diagnostic import DiagnosticError
from xg.driver import compile_project
from xg.frontend.plan_in_choices import plans_of
from xg.frontend.project import Project, parse_project, read_project
from xg.verify.plan_proof import RankProof, select_proofs
from xg.verify.proof_sizes import case

ROOT = Path(__file__).parents[3]
MODEL = ROOT / "diagrams" / "models" / "transformer.xg"
VIT = ROOT / "diagrams" / "models" / "vit.xg"
BY_HAND = ROOT / "tests" / "programs" / "08_node_i.xg"


@cache
def project(path: Path) -> Project:
    return read_project(path)


WITH_LAYERS = ("TP", "Ring", "PP", "Checkpoints")


@cache
def proven(block: str, plan: str | None, path: Path = MODEL, **settings: int) -> RankProof:
    """Where layers follow each other shows under plans of each kind: others have one layer."""
    fewer = {"N_L": 1} if path == MODEL and plan not in WITH_LAYERS and not THOROUGH else {}
    return proof_of(project(path), block, plan, {**fewer, **settings})


@pytest.mark.parametrize("on", ["simulated", "processes", "kernels"])
def test_the_sweep_of_a_night_has_every_shipped_plan(on: str) -> None:
    """An axis that is new in a file has sizes there; a plan without one needs no processes."""
    found = {(job.file, plan) for job in jobs(on) for plan in job.plans}
    assert found == {
        (file, plan)
        for file in MODELS
        for plan, axes in axes_of_plans(file).items()
        if on == "simulated" or axes
    }


# Products of two axes are CP × ZeRO2 and Ring × Stream below, in which ZeRO2 is, too.
ELSEWHERE = ("DP_TP", "ZeRO2")
TRIED = [plan for plan in tried(project(MODEL)) if THOROUGH or plan not in ELSEWHERE]


@pytest.mark.parametrize("plan", TRIED)
def test_a_shipped_plan_is_proven(plan: str) -> None:
    proof = proven("LM", plan)
    assert proof.passed
    assert proof.floats
    assert bool(proof.floats.edges) != bool(proof.program.stages)  # only residues have those
    assert proof.exact
    assert len(set(proof.program.graphs.mesh.values())) == len(proof.program.graphs.mesh)
    assert proof.floats.agreements["numpy"].gradients == 4 + 16 * proof.case.sizes["N_L"]
    assert all(each.agrees for each in proof.floats.sent)
    count = proof.floats.edges.count if proof.floats.edges else proof.exact[0].edges
    assert [(each.prime, each.edges) for each in proof.exact] == [(n, count) for n in PRIMES]
    assert count > 16 * proof.case.sizes["N_L"]
    verdicts = {each.verdict for each in proof.floats.controls}
    assert verdicts <= (IDLE if IDLE_IN.search(plan) else {"needed"})


IDLE = {"needed", "zeros", "unused"}
IDLE_IN = re.compile("FSDP|HSDP|ZeRO|Stream")


def test_what_a_plan_gathers_for_nothing_is_told() -> None:
    """Of X, which the plan of the stream gathers, every rank of the MLP uses but its own part."""
    proof = proven("LM", "Stream")
    assert proof.floats
    idle = [each for each in proof.floats.controls if each.verdict != "needed"]
    assert [(each.kind, each.verdict) for each in idle] == [
        ("all_gather", "unused"),
        ("reduce_scatter", "zeros"),
    ]


@pytest.mark.parametrize("block", ["MLP_i", "MHA_i", "MLP_sp"])
def test_a_block_by_hand_is_proven(block: str) -> None:
    proof = proven(block, None, BY_HAND, N_T=3)
    assert proof.passed
    assert proof.floats
    assert len(proof.floats.controls) >= 2


def test_plans_and_blocks_by_hand_are_found() -> None:
    plans = list(plans_of(project(MODEL)))
    found = [met[:2] for met in select_proofs(project(MODEL), None, None, {})]
    assert [plan for block, plan in found if block == "LM"] == plans
    assert ("GatedMLP", "TP") in found
    assert ("GatedMLP", "DP") not in found
    assert [block for block, *_ in select_proofs(project(BY_HAND), None, None, {})] == [
        "MLP_sp",
        "MHA_i",
        "MLP_i",
    ]


def sent(plan: str) -> set[tuple[str, str, str]]:
    """Pass, kind and mesh axes of all that a plan sends."""
    floats = proven("LM", plan).floats
    assert floats
    return {(each.direction, each.kind, each.over) for each in floats.sent}


def test_gathered_keys_are_scattered_in_the_backward_pass() -> None:
    assert {("forward", "all_gather", "N_S"), ("backward", "reduce_scatter", "N_S")} <= sent("CP")


def test_another_axis_may_cut_the_stream_of_a_ring() -> None:
    """It is none of the ring's: taken for that, sums of its terms came out in parts."""
    assert proven("LM", "Ring × Stream").passed


def test_keys_and_values_go_round_and_their_gradients_with_them() -> None:
    """In each of two layers K beside V, backward dK beside dV too; two turns for three ranks."""
    floats = proven("LM", "Ring", N_S=3).floats
    assert floats
    shifts = {each.direction: each for each in floats.sent if each.kind == "shift"}
    assert shifts["forward"].counted[0] == 2 * 2
    assert shifts["backward"].counted[0] == 2 * 2 * 2
    assert shifts["backward"].counted[1] == 2 * shifts["forward"].counted[1]
    removed = [each for each in floats.controls if each.kind == "shift"]
    assert len(removed) == 2 * 2
    assert all(each.verdict == "needed" for each in removed)


RINGS = """\
dim B, S, S_k, D
mesh N_S = 2

block Self(X [B, S, D]; p = 0.1) -> Y [B, S, D] {
    param W_Q, W_K, W_V [D, D]

    X -> •<=W_Q : Q [B, S, D]
    X -> •<=W_K : K [B, S, D]
    X -> •<=W_V : V [B, S, D]
    Q -> •<=T(K) -> SM(1/sqrt(D), causal) -> S -> DO(p) -> •<=V : Y
}

block Cross(X [B, S, D], M [B, S_k, D], shown [B, S, S_k] in 2) -> Y [B, S, D] {
    param W_K, W_V [D, D]

    M -> •<=W_K : K [B, S_k, D]
    M -> •<=W_V : V [B, S_k, D]
    X -> •<=T(K) -> SM<-shown -> S -> •<=V : Y
}

plan Ring of Self {
    X    [B, S/N_S, D]
    K, V [B, S, D] ring
}

plan Ring of Cross {
    X     [B, S/N_S, D]
    M     [B, S_k/N_S, D]
    shown [B, S/N_S, S_k]
    K, V  [B, S_k, D] ring
}
"""


@pytest.mark.parametrize(("block", "ranks", "kernels"), rings("Self", "Cross"))
def test_a_ring_of_any_length_is_attention(block: str, ranks: int, kernels: bool) -> None:
    """Causal and dropped, and with queries that see no key of some ranks, or none at all."""
    parsed = parse_project(RINGS.encode())
    backends = ("numpy", "torch")
    assert proof_of(parsed, block, "Ring", {"N_S": ranks}, backends, kernels=kernels).passed


@pytest.mark.parametrize("kernels", [False, True])
def test_a_ring_around_which_nothing_is_cut_is_attention(kernels: bool) -> None:
    """The plan cuts what the whole model gets, and this is the program of a block of it."""
    proof = proof_of(project(MODEL), "Attention", "Ring", {}, kernels=kernels)
    assert proof.passed
    assert not proof.program.graphs.mesh


def test_heads_are_exchanged_for_positions_and_back() -> None:
    exchanges = {("forward", "all_to_all", "N_S"), ("backward", "all_to_all", "N_S")}
    assert exchanges <= sent("Ulysses")


def test_a_softmax_over_split_keys_sums_inside() -> None:
    assert {
        ("forward", "all_reduce_max", "N_S"),
        ("forward", "all_reduce", "N_S"),
        ("backward", "all_reduce", "N_S"),
    } <= sent("KV")


def test_gradients_are_scattered_in_a_machine_and_summed_between_machines() -> None:
    placed = xg.compile(MODEL, plan="HSDP").distributed
    assert placed
    found = {(each.direction, each.kind, each.over) for each in traffic(placed)}
    assert {each for each in found if each[0] == "backward"} == {
        ("backward", "all_gather", "N_D"),
        ("backward", "reduce_scatter", "N_D"),
        ("backward", "all_reduce", "N_R"),
    }


def test_terms_of_a_zero_gradient_are_no_sum_too_many() -> None:
    """The gradient of the bias of keys is zero; its terms along N_S are not."""
    mesh = {} if THOROUGH else {"N_S": 2, "N_D": 2}
    floats = proven("LM", "CP × ZeRO2", N_L=1, **mesh).floats
    assert floats
    idle = [each for each in floats.controls if each.verdict != "needed"]
    assert [(each.kind, each.over, each.verdict) for each in idle] == [
        ("all_gather", "N_D", "unused"),
        ("reduce_scatter", "N_D", "zeros"),
    ]


def test_plans_of_a_file_are_those_that_it_names() -> None:
    """Attention brings a plan for the stream, but ViT has none for its own layers."""
    found = list(select_proofs(project(VIT), None, None, {}))
    assert [plan for block, plan, _ in found if block == "ViT"] == [
        "TP", "DP", "VP", "FSDP", "DP_TP", "FSDP_TP"
    ]  # fmt: skip


def test_an_axis_that_a_plan_does_not_use_is_no_size() -> None:
    assert "N_D" not in case(project(MODEL), "LM", "TP", {"N_T": 2, "N_D": 4}).sizes


def test_heads_are_shared_too() -> None:
    chosen = case(project(MODEL), "LM", "SP", {"N_T": 4})
    assert chosen.sizes["N_H"] % 4 == 0
    assert chosen.sizes["S"] % 4 == 0
    assert chosen.sizes["S"] <= chosen.sizes["S_max"]


@pytest.mark.parametrize("plan", ["FSDP", "Stream"])
def test_what_a_choice_leaves_unused_is_shared_and_bounded(plan: str) -> None:
    """With positions by sines the table of positions is typed and cut, though nothing reads it."""
    chosen = case(project(MODEL), "LM", plan, {"pos": "sinusoidal"})
    assert chosen.sizes["S"] <= chosen.sizes["S_max"]
    compile_project(project(MODEL), "LM", chosen.settings, plan)


UNUSED = """\
dim B = 5, D = 4, S = 3, S_max = 7
mesh N_T = 2
block Net(X [B, D]) -> Y [B, D] {
    param P [S_max, D], W [D, D]
    range(S) -> Emb(P) : E [S, D]
    X -> •<=W : Y
}
plan P of Net {
    W [D, D/N_T]
}
"""


def test_what_only_unused_steps_bound_is_bounded() -> None:
    sizes = case(parse_project(UNUSED.encode()), "Net", "P", {}).sizes
    assert sizes["S"] <= sizes["S_max"]


@pytest.mark.parametrize("plan", ["DP_TP", "FSDP_TP", "All"])
def test_axes_of_one_tensor_differ(plan: str) -> None:
    sizes = case(project(MODEL), "LM", plan, {}).sizes
    assert len({sizes["B"], sizes["S"], sizes["D"]}) == 3
    assert len({sizes["V"], sizes["D"]}) == 2


def test_sizes_that_are_set_have_to_fit() -> None:
    with pytest.raises(DiagnosticError, match="B = 4 is not divisible by N_D = 3"):
        case(project(MODEL), "LM", "DP", {"N_D": 3, "B": 4})


DEAD_LINES = """\
dim B, S, D
mesh N_T = 2

block Main(X [B, S, D]) -> Y [B, S, D] {
    param K [3, D/2, D], W [D, D/5]
    X -> conv[S](K, pad=1, groups=2) : Z
    X -> •<=W                        : A [B, S, D/5]
    X -> tanh                        : Y
}
plan P of Main {
    X [B/N_T, S, D]
}
"""


def test_sizes_are_whole_in_lines_that_no_output_needs() -> None:
    found = case(parse_project(DEAD_LINES.encode()), "Main", "P", {})
    assert found.sizes["D"] % 10 == 0
    assert proof_of(parse_project(DEAD_LINES.encode()), "Main", "P", {}).passed
