"""Plans of the language model for long sequences and many machines, each line by line proven."""

from __future__ import annotations

from pathlib import Path

import pytest

from xg.frontend.project import Project, read_project
from xg.verify.plan_proof import RankProof, prove_ranks

PLANS = """\
use LM, Attention from transformer

mesh N_D = 2, N_C = 2, N_R = 2

# The sequence is split: each rank gathers the keys and values of all.
plan CP "Context parallel, keys gathered" of LM {
    ids, t [B, S/N_C]
}

plan CP of Attention {
    K [B, N_H, S_k, D_h]
    V [B, N_H, S_k, D_h]
}

# The sequence is split, and while scores are computed the heads instead.
plan Ulysses "Context parallel, heads exchanged" of LM {
    ids, t [B, S/N_C]
}

plan Ulysses of Attention {
    Q    [B, N_H/N_C, S, D_h]
    K, V [B, N_H/N_C, S_k, D_h]
    O    [B, S/N_C, D]
}

# Sharded over the ranks of a machine, and replicated between machines.
plan Replicas "Replicas" of LM {
    ids, t [B/N_R, S]
}

plan HSDP "Hybrid sharded" = FSDP × Replicas
"""


@pytest.fixture
def project(tmp_path: Path) -> Project:
    file = tmp_path / "long_context.xg"
    file.write_text(PLANS, encoding="utf-8")
    return read_project(file)


def sent(proof: RankProof) -> set[tuple[str, str, str]]:
    """Pass, kind and mesh axes of all that is sent."""
    assert proof.floats
    return {(each.direction, each.kind, each.over) for each in proof.floats.sent}


def test_gathered_keys_are_scattered_in_the_backward_pass(project: Project) -> None:
    proof = prove_ranks(project, "LM", "CP", {}, seed=0)
    assert proof.passed
    assert {("forward", "all_gather", "N_C"), ("backward", "reduce_scatter", "N_C")} <= sent(proof)


def test_heads_are_exchanged_for_positions_and_back(project: Project) -> None:
    proof = prove_ranks(project, "LM", "Ulysses", {}, seed=0)
    assert proof.passed
    assert {("forward", "all_to_all", "N_C"), ("backward", "all_to_all", "N_C")} <= sent(proof)


def test_gradients_are_scattered_in_a_machine_and_summed_between_machines(
    project: Project,
) -> None:
    proof = prove_ranks(project, "LM", "HSDP", {}, seed=0)
    assert proof.passed
    assert {kind for kind in sent(proof) if kind[0] == "backward"} == {
        ("backward", "reduce_scatter", "N_D"),
        ("backward", "all_reduce", "N_R"),
    }


def test_terms_of_a_zero_gradient_are_no_sum_too_many(project: Project) -> None:
    """The gradient of the bias of keys is zero; its terms along N_C are not."""
    proof = prove_ranks(project, "LM", "CP × FSDP", {}, seed=0)
    assert proof.passed
    assert proof.floats
    idle = [each for each in proof.floats.controls if each.verdict != "needed"]
    assert [(each.kind, each.over, each.verdict) for each in idle] == [
        ("all_gather", "N_D", "unused"),
        ("reduce_scatter", "N_D", "zeros"),
    ]
