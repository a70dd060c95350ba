"""Running statistics under plans: ranks and stages move them as one device does, or are refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from library import shipped
from tier import THOROUGH, some
from verify.proof.daily import proof_of

import xg
from xg.cli import main
from xg.frontend.project import read_project
from xg.verify.plan_proof import RankProof, prove_ranks
from xg_runtime.ranks import pipeline

NET = """\
dim B, S, C = 5, N_L = 4

block Layer(X [B, S, C]) -> Y [B, S, C] {
    param W [C, C], μ [C] = zeros frozen, v [C] = ones frozen

    X -> •<=W -> BN(mean=μ, variance=v, momentum=0.3) -> ReLU -> ⊕<-X : Y
}

block Net(X [B, S, C], t [B, S, C]) -> loss [] {
    X -> Layer as first          : A [B, S, C]
      -> N_L × Layer as layers   : Z [B, S, C]
      -> Layer as last -> MSE<-t : loss
}

mesh N_D = 2, N_P = 2

plan DP of Net {
    X, t [B/N_D, S, C]
}

plan PP of Net {
    layers [N_L/N_P]
}
"""
AGAIN = NET.replace("-> Layer as last ->", "-> first ->")
BESIDE = NET.replace("-> Layer as last ->", "-> ⊕<-A ->")  # A is made on both stages


def proof(folder: Path, text: str, plan: str) -> RankProof:
    (folder / "net.xg").write_text(text, encoding="utf-8")
    return prove_ranks(read_project(folder / "net.xg"), "Net", plan, {}, 0, exact=False)


@pytest.mark.parametrize(
    ("text", "plan"),
    [(NET, "DP"), (NET, "PP"), (BESIDE, "DP"), (BESIDE, "PP"), (BESIDE, "DP × PP")],
    ids=lambda each: {NET: "apart", BESIDE: "beside"}.get(each, each),
)
def test_statistics_move_as_on_one_device(text: str, plan: str, tmp_path: Path) -> None:
    """Every collective counts: that of the variance is seen in what is moved alone."""
    assert proof(tmp_path, text, plan).passed


def test_a_proof_compares_statistics(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def none(module: object) -> None:
        del module

    monkeypatch.setattr(pipeline, "move_of", none)
    floats = proof(tmp_path, NET, "PP").floats
    assert floats is not None
    (found,) = floats.agreements.values()
    assert found.first is not None
    assert found.first.startswith("moved first.mu")


def test_a_statistic_that_two_stages_would_move_is_refused(tmp_path: Path) -> None:
    said = r"first\.mu is on stages 0 and 1 of the pipeline, and each would update its own"
    with pytest.raises(xg.DiagnosticError, match=said):
        proof(tmp_path, AGAIN, "PP")
    assert proof(tmp_path, AGAIN, "DP").passed


# Each plan with a layer, each layer under a plan: the product of plans takes the longest.
STAGES = [
    ("FSDP", "Basic"),
    ("TP", "Bottleneck"),
    ("FSDP_TP", "Basic"),
    ("FSDP", "Bottleneck"),
    ("TP", "Basic"),
    ("FSDP_TP", "Bottleneck"),
]
TRIED = some(STAGES, lambda stage: stage[0])


@pytest.mark.parametrize(("plan", "layer"), TRIED)
def test_stages_of_resnet_are_proven(plan: str, layer: str) -> None:
    """Not only square images; FSDP gathers kernels and leaves statistics whole.

    Daily the product has the first layer alone, as each of its plans has two behind it.
    """
    settings: dict[str, str | int] = {"layer": layer}
    settings |= {"N": 0} if plan == "FSDP_TP" and not THOROUGH else {}
    assert proof_of(read_project(shipped("resnet")), "Stage", plan, settings).passed


def test_resnet_on_ranks_that_share_a_batch_is_proven() -> None:
    widths = {"D": 4, "D_1": 8, "D_2": 16, "D_3": 8, "D_4": 16, "N_C": 6, "B": 4, "C_in": 3}
    small = {"H": 32, "W": 64, **dict.fromkeys(("N_1", "N_2", "N_3", "N_4"), 1), **widths}
    given = {**small, "layer": "Basic"}
    assert proof_of(read_project(shipped("resnet")), "ResNet", "DP", given).passed


@pytest.mark.usefixtures("warm_ranks")
def test_processes_compare_statistics_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "net.xg").write_text(NET, encoding="utf-8")
    argv = ["verify", str(tmp_path / "net.xg"), "--on", "processes"]
    assert main(argv) == 0, capsys.readouterr().out
