"""`expect dW = 0`: proven by the graph or modulo primes, never by floats that are small."""

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import numpy as np
import pytest

from xg.cli import main
from xg.frontend.project import read_project
from xg.frontend.typed import type_project
from xg.ir.graph import MeantZero
from xg.ir.prim import Expr
from xg.ir.verify import violations
from xg.verify.gradient_proof import GradientProof, prove
from xg.verify.reference.evaluate import Context
from xg.verify.reference.residues import MINUS_INFINITY, PRIMES, modulo_in_random_order
from xg.verify.zeros import why_zero_through_calls
from xg_runtime.errors import InputError

SINKHORN = """\
dim B, D, N, M = N, R = 3

op positive(L) = exp(L)
op rows(A [N, M]) = A / sum[M](A)
op columns(A [N, M]) = A / sum[N](A)
op mix(X [B, M, D], P [N, M]) = X * P
op streams(X [B, M, D, N]) = sum[N, M](X)
op mixed(X [B, M, D, N]) = sum[M](X)
op total(X [B, M, D]) = sum[M](X)

"""
MIX = """\
block Mix(X [B, M, D]) -> Y [B, D] {
    param L [N, M], W [D, D]
    expect dL = 0 "columns sum to one, and the streams are summed"

    X -> •<=W : H
    L -> positive -> rows -> columns -> rows -> columns : P
    H -> mix<-P -> streams : Y
}
"""
LAYERS = """\
block Layer(X [B, M, D]) -> Y [B, M, D] {
    param L [N, M], W [D, D]
    L -> positive -> rows -> columns -> rows -> columns : P
    X -> •<=W -> tanh -> mix<-P -> mixed -> T[b, d, n -> b, n, d] : Y
}

block Net(X [B, M, D]) -> Y [B, D] {
    expect layers.last.dL = 0
    X -> R × Layer as layers -> total : Y
}
"""


def proof_of(text: str, tmp_path: Path, block: str | None = None, **settings: int) -> GradientProof:
    file = tmp_path / "zeros.xg"
    file.write_text(text)
    return prove(read_project(file), block, settings, 0)


def verdict(text: str, name: str, tmp_path: Path, **settings: int) -> tuple[str, str]:
    proof = proof_of(text, tmp_path, None, **settings)
    (row,) = (row for row in proof.gradients.rows if row.name == name)
    assert proof.passed == all(row.verdict != "failed" for row in proof.gradients.rows)
    return row.verdict, row.reason


def test_a_doubly_stochastic_mixing_needs_the_line(tmp_path: Path) -> None:
    found = verdict(SINKHORN + MIX, "L", tmp_path)
    proven = "dL = 0: meant, proven by the modular check, 12 draws modulo 3 primes"
    assert found == ("zero", proven)
    without = "".join(line for line in MIX.splitlines(keepends=True) if "expect" not in line)
    assert verdict(SINKHORN + without, "L", tmp_path)[0] == "failed"


def test_a_gradient_that_is_not_zero_is_shown(tmp_path: Path) -> None:
    other = MIX.replace("-> rows -> columns :", "-> rows :")  # then only rows sum to one
    kind, reason = verdict(SINKHORN + other, "L", tmp_path)
    assert kind == "failed"
    value = float(reason.split("is false: it is ")[1].split(" at ")[0])
    proof = proof_of(SINKHORN + other, tmp_path)
    assert reason.startswith("dL = 0 (line 13) is false")
    assert abs(value) > 1e-3
    assert proof.zeros["L"].otherwise.startswith("it is ")


def test_the_last_round_of_a_repeat(tmp_path: Path) -> None:
    """Only its mixing is summed at once; that of a round before goes through tanh."""
    for rounds in (1, 2, 4):
        proof = proof_of(SINKHORN + LAYERS, tmp_path, "Net", R=rounds)
        assert proof.passed
        zero = {row.name for row in proof.gradients.rows if row.verdict == "zero"}
        assert zero == {f"layers.{rounds - 1}.L"}
    numbered = LAYERS.replace("layers.last", "layers.3")
    assert proof_of(SINKHORN + numbered, tmp_path, "Net", R=4).zeros["layers.3.L"].proven_by
    with pytest.raises(InputError, match=r"layers\.3\.L, which does not exist .* `last`"):
        proof_of(SINKHORN + numbered, tmp_path, "Net", R=2)


def test_a_structural_zero_is_proven_by_the_graph(tmp_path: Path) -> None:
    stopped = """dim B, D
block F(X [B, D]) -> Y [B, D] {
    param W [D, D], V [D, D]
    expect dW = 0
    W -> stop : U
    X -> •<=U -> •<=V : Y
}
"""
    kind, reason = verdict(stopped, "W", tmp_path)
    assert (kind, reason.partition(": stop")[0]) == ("zero", "dW = 0: meant, proven by the graph")
    typed = type_project(read_project(tmp_path / "zeros.xg"), "F")
    assert why_zero_through_calls(typed, "W") is not None


def chain(op: str) -> str:
    return f"""dim B, D
{op}
block F(X [B, D]) -> Y [B, D], Z [B, D] {{
    param W [D, D]
    expect dW = 0
    X -> •<=W -> f : Y
    X -> tanh : Z
}}
"""


@pytest.mark.parametrize(
    "op",
    [
        "op f(x) = max(x, 0) - max(x, 0)",
        "op f(x [B, D]) = x - x + max[D](x) - max[D](x)",
        "op f(x) = (x + 1)*(x - 1) - x^2",
    ],
)
def test_algebra_is_proven(op: str, tmp_path: Path) -> None:
    assert verdict(chain(op), "W", tmp_path)[0] == "zero"


@pytest.mark.parametrize(
    "op",
    [
        # Zero at all numbers that are drawn, and not between 50 and 51. No residue is between.
        "op f(x) = min(max(x, 50), 51)",
        "op f(x) = select(x > 50, x, 0)",
        "op f(x) = select(and(x > 50, 51 > x), x, 0)",
        "op f(x [B, D]) = x*0 + max[D](max(x, 50))",
        # Zero by a law of exp, and tiny: neither is a proof.
        "op f(x) = exp(x + x) - exp(x)*exp(x)",
        "op f(x) = x*1e-30",
    ],
)
def test_small_floats_and_rare_branches_prove_nothing(op: str, tmp_path: Path) -> None:
    kind, reason = verdict(chain(op), "W", tmp_path)
    assert kind == "failed"
    assert "dW = 0 (line 5) is not proven: it is" in reason


def test_a_callee_claims_it_for_whatever_arrives(tmp_path: Path) -> None:
    text = SINKHORN + LAYERS.replace("    L -> positive", "    expect dL = 0\n    L -> positive")
    file = tmp_path / "zeros.xg"
    file.write_text(text)
    assert not proof_of(text, tmp_path, "Layer").passed
    assert main(["verify", str(file)]) == 1  # also where a caller has met the block


def test_the_data_names_each_claim(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "zeros.xg"
    file.write_text(SINKHORN + MIX)
    assert main(["verify", str(file), "--json"]) == 0
    (zero,) = json.loads(capsys.readouterr().out)["proofs"][0]["zeros"]
    assert zero == {
        "name": "L",
        "line": 13,
        "text": "columns sum to one, and the streams are summed",
        "passed": True,
        "proven_by": "the modular check, 12 draws modulo 3 primes",
        "otherwise": "",
    }


def test_the_verifier_of_the_ir_knows_its_claims(tmp_path: Path) -> None:
    file = tmp_path / "zeros.xg"
    file.write_text(SINKHORN + MIX)
    program = type_project(read_project(file), "Mix")
    assert list(violations(program)) == []
    main_graph = program.main
    wrong = replace(main_graph, meant_zeros=(MeantZero("Q", "", main_graph.span),))
    broken = replace(program, graphs={**program.graphs, program.entry: wrong})
    assert any("zero gradient of Q" in each for each in violations(broken))


def test_comparisons_go_by_an_order_that_is_drawn() -> None:
    x = np.array([MINUS_INFINITY, *range(-20, 20)])
    given = Expr("input", (), (), "float")
    greater = Expr("gt", (given, given), (), "bool")
    context = cast("Context", SimpleNamespace(stopped=None))  # a comparison asks for no more
    orders: set[tuple[int, ...]] = set()
    for seed in range(5):
        compare = modulo_in_random_order(PRIMES[0], seed).meanings["gt"]
        ranks = [int(compare(greater, context, each, x).sum()) for each in x]
        assert ranks[0] == 0  # -inf is below all
        orders.add(tuple(ranks))
    assert len(orders) == 5
