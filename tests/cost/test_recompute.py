"""Recompute policies against counts by hand in attention, and against what modules keep."""

from pathlib import Path

import pytest

import xg
from xg.cost.communication import total
from xg.cost.memory import Policy, attention_steps
from xg.diagnostics.diagnostic import DiagnosticError
from xg.ir.dim import ZERO, symbol
from xg.ir.graph import IRProgram

LIBRARY = Path(__file__).parents[2] / "diagrams"
B, S, D, N_H, N_L = map(symbol, ("B", "S", "D", "N_H", "N_L"))

GATE = """\
dim B, D = 4, N_E = 3
block Gate(X [B, D]) -> G [B, N_E] {
    param W [D, N_E]
    X -> •<=W -> S : G
}
"""


def named(program: xg.Program) -> dict[str, Policy]:
    return {each.name: each for each in program.cost().policies}


def test_selective_drops_scores_softmax_and_dropout() -> None:
    """The weights (4 bytes), what dropout leaves of them (4) and its mask (1)."""
    found = named(xg.compile(LIBRARY / "notation" / "mha.xg"))
    all_, selective = found["save all"], found["selective"]
    assert all_.saved - selective.saved == N_H * B * S * S * 9
    scores = B * D * S * S * 2
    masked = N_H * B * S * S * 2 + S * S
    softmax = N_H * B * S * S * 5 + N_H * B * S * 4
    assert selective.again == scores + masked + softmax + N_H * B * S * S * 2
    assert all_.again == ZERO


def test_selective_counts_every_layer() -> None:
    found = named(xg.compile(LIBRARY / "models" / "transformer.xg"))
    assert found["save all"].saved - found["selective"].saved == N_L * N_H * B * S * S * 9


def test_per_block_keeps_the_inputs_of_layers() -> None:
    program = xg.compile(LIBRARY / "models" / "transformer.xg")
    found, cost = named(program)["per block"], program.cost()
    (layer,) = (row.amount for row in cost.blocks[0].rows if row.callee)
    assert found.again == layer.forward
    once = cost.blocks[1].total.saved
    assert found.at_once == once
    # of each layer its input, and what comes out of the last, which LN keeps
    outside = sum((row.amount.saved for row in cost.blocks[0].rows if not row.callee), ZERO)
    assert found.saved - outside == N_L * B * S * D * 4


def test_per_block_sends_again_what_the_forward_pass_sends() -> None:
    program = xg.compile(LIBRARY / "models" / "transformer.xg", plan="TP")
    (first, second) = named(program)["per block"].sent
    assert [first.payload, second.payload] == [N_L * B * S * D] * 2
    assert {first.direction, second.direction} == {"forward"}
    assert named(program)["selective"].sent == ()


def test_rounds_of_a_loop_keep_their_states_and_no_other_input(tmp_path: Path) -> None:
    text = """\
dim B, S, D = 4, N = 3
block Cell(x [B, D], u [B, N], w [B, 2]) -> y [B, D] {
    param W [D, D], V [N, D], U [2, D]
    state h [B, D] = zeros
    x -> •<=W -> ⊕<-(u -> •<=V) -> ⊕<-(w -> •<=U) -> ⊕<-h -> tanh : y
    next h = y
}
block Net(X [B, S, D], Z [B, S, N], V [B, S, 2]) -> Y [B, S, D] {
    X, Z, V -> Cell over S : Y
}
"""
    (tmp_path / "loop.xg").write_text(text, encoding="utf-8")
    S, N = map(symbol, "SN")
    found = named(xg.compile(tmp_path / "loop.xg"))["per block"]
    inputs = B * S * (D + N + 2) * 4
    assert found.saved == inputs + B * D * S * 4


def test_a_gate_is_no_attention(tmp_path: Path) -> None:
    """A softmax over what a parameter multiplied is not one over scores."""
    text = "dim B, D = 4, N_E = 3\n"
    text += (
        "block Gate(X [B, D]) -> G [B, N_E] {\n    param W [D, N_E]\n    X -> •<=W -> S : G\n}\n"
    )
    (tmp_path / "gate.xg").write_text(text, encoding="utf-8")
    program = xg.compile(tmp_path / "gate.xg")
    assert attention_steps(program.graphs.main) == frozenset()
    assert [each.name for each in program.cost().policies] == ["save all"]


def test_of_attention_the_values_are_kept() -> None:
    graphs: IRProgram = xg.compile(LIBRARY / "notation" / "mha.xg").graphs
    assert {step.op.glyph for step in attention_steps(graphs.main)} == {"•", "SM", "S", "DO"}


REGATHER = """\
use LM, Layer, Attention, MLP from transformer
plan Regather of Attention { X, M again }
plan Regather of MLP { X again }
"""


@pytest.fixture(scope="module")
def lean(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A language model whose blocks do not keep their inputs."""
    path = tmp_path_factory.mktemp("regather") / "lean.xg"
    path.write_text(REGATHER, encoding="utf-8")
    return path


def test_an_input_is_gathered_again_from_the_part_that_its_caller_keeps(lean: Path) -> None:
    """Each layer gathers two streams of 4 B·S·D bytes: once for attention, once for the MLP."""
    before, now = (xg.compile(lean, "LM", plan=plan).cost() for plan in ("SP", "SP × Regather"))
    stream, ranks = N_L * B * S * D * 2, symbol("N_T")
    assert before.total.saved - now.total.saved == stream * 4 - stream * 4 / ranks
    assert before.total.forward == now.total.forward
    assert before.total.backward == now.total.backward
    sent = total(now.sent, "ring") - total(before.sent, "ring")
    assert sent == stream * (ranks - 1) / ranks


def test_on_one_device_the_operator_before_the_block_runs_again(lean: Path) -> None:
    """A layer norm keeps neither its result nor its two statistics, and costs what it did once."""
    before, now = xg.compile(lean, "LM").cost(), xg.compile(lean, "LM", plan="Regather").cost()
    results, statistics = N_L * B * S * D * 2, N_L * B * S * 2 * 2
    assert before.total.saved - now.total.saved == (results + statistics) * 4
    norm = next(row for row in before.blocks[1].rows if row.name == "LN")
    again = norm.amount.forward * N_L * 2
    assert now.total.backward - before.total.backward == again


def test_an_input_that_every_caller_keeps_anyway_is_refused(lean: Path) -> None:
    """After a norm at the end of each layer, the input of attention is the input of the layer."""
    with pytest.raises(DiagnosticError, match="M, an input of Attention, cannot be recomputed"):
        xg.compile(lean, "LM", plan="Regather", options={"norm": "post"})
