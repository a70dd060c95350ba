"""`xg verify --against single,exact`: ranks against one device, and that it can fail."""

from __future__ import annotations

import json
from pathlib import Path
from types import ModuleType

import pytest
from cli.conftest import DIAGRAMS, Xg

from xg import driver

MODEL = DIAGRAMS / "models" / "transformer.xg"
GPT2 = DIAGRAMS / "models" / "gpt2.xg"
BY_HAND = Path(__file__).parents[1] / "programs" / "08_node_i.xg"


def test_the_command(xg: Xg) -> None:
    said = xg("verify", BY_HAND, "--block", "MLP_i", "--against", "single,exact,torch")
    assert said.code == 0
    assert "on 2 simulated ranks, N_T = 2, dropout on" in said.out
    assert "torch code of ranks and of one device agree: 1 output and 7 gradients" in said.out
    assert "2 of 2 collectives are needed: the check fails" in said.out
    assert said.out.endswith("1 parallel program: all proven\n")


def test_with_a_plan_single_and_exact_are_meant(xg: Xg) -> None:
    said = xg("verify", MODEL, "--plan", "TP", "--block", "MLP", "--json")
    found = json.loads(said.out)
    assert found["passed"] is True
    assert "proofs" not in found
    (proof,) = found["ranks"]
    assert (proof["plan"], proof["mesh"]) == ("TP", {"N_T": 2})
    assert proof["single"]["passed"]
    assert len(proof["exact"]) == 3
    assert [row["calls"] for row in proof["single"]["sent"]] == [1, 1]


@pytest.mark.parametrize(
    ("file", "plan", "line", "places"),
    [
        (DIAGRAMS / "notation" / "mlp.xg", "DP", "1        93  yes, bundling 6 calls", 1),
        (MODEL, "SP", "2        62  yes\n", 4),  # dX, begun early, and db_down
    ],
)
def test_what_kernels_bundle_or_begin_early_is_missed_too(
    xg: Xg, file: Path, plan: str, line: str, places: int
) -> None:
    said = xg("verify", file, "--block", "MLP", "--plan", plan, "--against", "single", "--kernels")
    assert said.code == 0
    assert line in said.out
    assert f"{places} of {places} collectives are needed: the check fails" in said.out


def test_kernels_are_held_to_the_formulas_of_the_fused_program(xg: Xg) -> None:
    """Behind a fused operator the moves of the stream's plan are in other places."""
    chosen = ("--block", "Layer", "--plan", "Stream", "--against", "single")
    found = [
        json.loads(xg("verify", GPT2, *chosen, *more, "--json").out)["ranks"][0]
        for more in ((), ("--kernels",))
    ]
    assert all(proof["passed"] for proof in found)
    plain, fused = (
        {(r["pass"], r["collective"]): r["expected"] for r in proof["single"]["sent"]}
        for proof in found
    )
    assert plain["backward", "reduce_scatter"] != fused["backward", "reduce_scatter"]


CHOICES = """\
dim B, D = 4
mesh N_T
option act = ReLU | GELU

block Net(X [B, D]) -> Y [B, D] {
    param W [D, D]
    X -> •<=W -> act : Y
}

plan TP of Net { W [D, D/N_T] -> [D, D] }
"""


def test_a_plan_is_proven_in_every_choice(xg: Xg, tmp_path: Path) -> None:
    (tmp_path / "choices.xg").write_text(CHOICES, encoding="utf-8")
    for asked in ((), ("--plan", "TP")):
        said = xg(
            "verify", tmp_path / "choices.xg", "--every-choice", "--against", "single", *asked
        )
        assert said.code == 0
        assert "Net, plan TP act=ReLU" in said.out
        assert "Net, plan TP act=GELU" in said.out
        assert said.out.endswith("2 parallel programs: all proven\n")


def test_nothing_to_prove_is_no_proof(xg: Xg) -> None:
    said = xg("verify", "tiny.xg", "--against", "single")
    assert said.code == 1
    assert "nothing is proven: no plan applies to a block" in said.out


@pytest.mark.parametrize(
    ("right", "wrong", "message"),
    [
        ('all_reduce(U @ W_down, "N_T")', "U @ W_down", "NO: 1 calls of"),
        ("+ b_down", "+ 2 * b_down", "DIFFER: first in Y"),
        ("Y = all_reduce", "Y = 1 * all_reduce", ""),
        ("return Y, MLPSaved", 'Y = all_reduce(Y / 3, "N_T")\n    return Y, MLPSaved', "NO: 1"),
        ("return Y, MLPSaved", 'all_reduce(Y, "N_T")\n    return Y, MLPSaved', "NOT NEEDED"),
    ],
)
def test_a_sabotaged_rank_fails(
    xg: Xg, monkeypatch: pytest.MonkeyPatch, right: str, wrong: str, message: str
) -> None:
    real = driver.load

    def sabotaged(source: str, name: str) -> ModuleType:
        assert "xg_runtime.ranks" not in source or right in source
        return real(source.replace(right, wrong) if "xg_runtime.ranks" in source else source, name)

    monkeypatch.setattr(driver, "load", sabotaged)
    said = xg("verify", MODEL, "--plan", "TP", "--block", "MLP", "--against", "single")
    assert said.code == (1 if message else 0), said.out
    assert message in said.out
