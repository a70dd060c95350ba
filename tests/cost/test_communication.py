"""The traffic between ranks: the formulas of the seed, and numbers that can be checked by hand."""

from functools import cache
from pathlib import Path

import pytest

import xg
from xg.cost.communication import Sent, Way, factor, spell_factor, total, total_formula
from xg.cost.report import CostReport, lines
from xg.ir.dim import ONE, Dim, number, symbol

TRANSFORMER = Path(__file__).parents[2] / "diagrams" / "models" / "transformer.xg"
B, S, D, V, N_L, N_D, N_T, N_S = map(symbol, ("B", "S", "D", "V", "N_L", "N_D", "N_T", "N_S"))
D_FF = D * 4


@cache
def planned(plan: str) -> CostReport:
    return xg.compile(TRANSFORMER, plan=plan).cost()


def layer(report: CostReport) -> tuple[Sent, ...]:
    (found,) = report.rounds
    assert found.name == "Layer"
    return found.sent


def around_a_ring(ranks: Dim) -> Dim:
    return (ranks - 1) * 2 / ranks


def test_a_factor_is_written_as_people_write_it() -> None:
    assert spell_factor("all_gather", "N_T", "ring") == "(N_T - 1)/N_T"
    assert spell_factor("all_reduce", "N_T", "naive") == "2*(N_T - 1)"
    assert spell_factor("send", "N_PP", "ring") == ""


def test_tensor_parallel_is_two_sums_of_the_stream_in_each_pass() -> None:
    """Seed 001, 6.2.2: 2(N_T - 1) [B, S, D] naive, 2(N_T - 1)/N_T [B, S, D] around a ring."""
    parts = layer(planned("TP"))
    assert [part.direction for part in parts] == ["forward"] * 2 + ["backward"] * 2
    for part in parts:
        assert (part.kind, part.over, part.calls) == ("all_reduce", "N_T", ONE)
        assert part.formula("naive") == "2*(N_T - 1)*B*D*S"
        assert part.formula("ring") == "2*(N_T - 1)/N_T*B*D*S"
        assert part.elements("naive") == (N_T - 1) * 2 * B * S * D
    assert total(parts, "ring") == (ONE - ONE / N_T) * 8 * B * S * D


def test_what_goes_round_is_a_part_in_each_call() -> None:
    """K and V of a rank visit the others together: N_S - 1 calls, each with one rank's part."""
    report = planned("Ring")
    [keys_and_values] = [
        each for each in report.sent if (each.kind, each.direction) == ("shift", "forward")
    ]
    assert keys_and_values.each == B * D * S / N_S * 2
    assert keys_and_values.calls == N_L * (N_S - 1)
    assert total([keys_and_values], "ring") == N_L * (N_S - 1) * 2 * B * D * S / N_S
    (first, *_) = [line for line in lines(report, full=True) if " forward   shift " in line]
    assert "  2*B*D*S/N_S  " in first


def test_data_parallel_sums_the_matrices_of_the_mlp() -> None:
    """Seed 001, 7.3: 2(N_D - 1)/N_D times 2 D D_ff, for the two matrices."""
    matrices = [each for each in planned("DP").sent if each.of in ("dW_up", "dW_down")]
    assert [each.each for each in matrices] == [D * D_FF, D * D_FF]
    assert [each.calls for each in matrices] == [N_L, N_L]
    assert total(matrices, "ring") == around_a_ring(N_D) * D * D_FF * 2 * N_L
    assert total(matrices, "naive") == (N_D - 1) * 2 * D * D_FF * 2 * N_L


def test_data_parallel_sums_all_of_a_layer() -> None:
    """The seed counts the MLP's matrices; a layer has more: 4 D^2 + 2 D D_ff + 9 D + D_ff."""
    whole = D * D * 4 + D * D_FF * 2 + D * 9 + D_FF
    assert total(layer(planned("DP")), "ring") == around_a_ring(N_D) * whole


def test_with_both_a_matrix_is_sent_in_parts() -> None:
    parts = layer(planned("DP_TP"))
    stream = [each for each in parts if each.over == "N_T"]
    (up,) = (each for each in parts if each.of == "dW_up")
    (norm,) = (each for each in parts if each.of == "dgamma_1")
    assert [each.payload for each in stream] == [B * S * D / N_D] * 4
    assert up.payload == D * D_FF / N_T
    assert norm.payload == D


def test_sequence_parallel_sends_as_much_as_tensor_parallel() -> None:
    parts = layer(planned("SP"))
    stream = [each for each in parts if each.kind != "all_reduce"]
    kinds = sorted((each.direction, each.kind) for each in stream)
    assert kinds == [
        *[("backward", "all_gather")] * 2,
        *[("backward", "reduce_scatter")] * 2,
        *[("forward", "all_gather")] * 2,
        *[("forward", "reduce_scatter")] * 2,
    ]
    assert total(stream, "ring") == total(layer(planned("TP")), "ring")
    rest = [each.payload for each in parts if each.kind == "all_reduce"]
    assert rest == [D] * 6  # two LNs, and the biases behind the sums


def test_zero_3_gathers_twice_and_scatters_once() -> None:
    """Biases are gathered once: no gradient reads them."""
    parts = layer(planned("FSDP"))
    read = D * D * 4 + D * D_FF * 2 + D * 2
    whole = D * D * 4 + D * D_FF * 2 + D * 9 + D_FF
    assert total(parts, "ring") == around_a_ring(N_D) * whole + around_a_ring(N_D) * read / 2
    assert {(each.direction, each.kind) for each in parts} == {
        ("forward", "all_gather"),
        ("backward", "all_gather"),
        ("backward", "reduce_scatter"),
    }


@pytest.mark.parametrize("plan", ["ZeRO1", "ZeRO2"])
def test_zero_1_and_2_gather_once_and_scatter_once(plan: str) -> None:
    """Gathered weights are kept for the backward pass, so it is 2(N - 1)/N |W| and not 3."""
    parts = layer(planned(plan))
    assert {each.once for each in parts} == {plan == "ZeRO1"}
    whole = D * D * 4 + D * D_FF * 2 + D * 9 + D_FF
    assert total(parts, "ring") == around_a_ring(N_D) * whole
    assert {(each.direction, each.kind) for each in parts} == {
        ("forward", "all_gather"),
        ("backward", "reduce_scatter"),
    }


def test_a_vocabulary_in_parts_costs_three_small_sums() -> None:
    parts = [each for each in planned("VP").sent if each.line == 61]
    assert [each.payload for each in parts] == [B * S] * 3
    assert [each.kind for each in parts].count("all_reduce_max") == 1
    assert total_formula(parts, "ring") == "2*(N_T - 1)/N_T*3*B*S"


@pytest.mark.parametrize(
    ("kind", "way", "each"),
    [
        ("all_reduce", "naive", 6),
        ("all_reduce", "ring", 1.5),
        ("all_reduce_max", "ring", 1.5),
        ("all_gather", "naive", 0.75),
        ("all_gather", "ring", 0.75),
        ("reduce_scatter", "ring", 0.75),
        ("all_to_all", "ring", 0.75),
    ],
)
def test_what_four_ranks_send_of_an_element(kind: str, way: Way, each: float) -> None:
    share = factor(kind, "N_T", way).substitute({"N_T": number(4)})  # pyright: ignore[reportArgumentType]
    assert share * 100 == number(int(each * 100))


def test_bytes_are_those_of_the_type() -> None:
    program = xg.compile(TRANSFORMER, plan="TP", sizes={"B": 2, "S": 8}, mesh={"N_T": 2})
    single, half = program.cost(), program.cost("bfloat16")
    assert single.sent[0].bytes("ring").evaluate(single.numbers) == 4 * 4 * 2 * 8 * 64
    assert half.sent[0].bytes("ring").evaluate(half.numbers) == 4 * 2 * 2 * 8 * 64


def test_one_device_sends_nothing() -> None:
    found = xg.compile(TRANSFORMER).cost()
    assert (found.sent, found.rounds, found.mesh) == ((), (), {})
    assert total_formula(found.sent, "naive") == "0"
