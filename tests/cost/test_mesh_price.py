"""The price of a plan on a mesh, against numbers that are counted by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

import xg
from xg.cost.report import CostReport, Machine
from xg.cost.stage_cost import Cluster, MeshPrice, held, price, shapes, stages_of

MLP = Path(__file__).parents[2] / "diagrams" / "notation" / "mlp.xg"
B, S, D, N_D, N_T = 4, 6, 64, 2, 4
MESH = {"N_D": N_D, "N_T": N_T}
NUMBERS = {"B": B, "S": S, "D": D, "D_ff": 4 * D, **MESH, "N_PP": 2}
RATE, NEAR, FAR = 1e6, 1e3, 1e2  # FLOP/s, and bytes/s inside a node and between nodes

COMPUTING = (
    (120 * B * D * S + 48 * B * D**2 * S) / (N_D * N_T) + 27 * B * D * S / N_D + 3 * B * S / N_D
) / RATE
PARAMS = 8 * D**2 // N_T + 4 * D // N_T + 3 * D  # W_up, W_down; b_up; b_down, γ, β
SENT_D = 2 * (N_D - 1) / N_D * PARAMS * 4  # bytes: each parameter's gradient is summed
SENT_T = 2 * (N_T - 1) / N_T * 2 * (B // N_D * S * D) * 4  # Z forward, and dH backward
RESTING = 4 * PARAMS * 4  # parameters, gradients, and two moments
# In the backward pass of LN: dU and dGELU; dY, dZ, dH and its term, and four inside of LN; terms of
# the gradients of both weights and both biases.
WIDE, ROWS, TERMS = 2 * 4 * B * S * D // (N_D * N_T), 8 * B * S * D // N_D, 8 * D**2 // N_T
ALIVE = 4 * (WIDE + ROWS + TERMS + 4 * D // N_T + D)
SAVED = 32 * B * S * D / (N_D * N_T) + 9 * B * S * D / N_D + 8 * B * S / N_D


@pytest.fixture(scope="module")
def report() -> CostReport:
    (report,) = xg.compile(MLP, plan="DP_TP").costs("float32", brief=True)
    return report


def machine(link: float) -> Machine:
    return Machine("m", "M", "", {"float32": RATE}, link, 0.0, {})


def priced(
    report: CostReport, size: int, *, parts: int = 1, stages: int = 1, one_node: bool = False
) -> MeshPrice | None:
    between = None if one_node else machine(FAR)
    cluster = Cluster(machine(NEAR), between, size)
    mesh, axis = (MESH, None) if stages == 1 else ({"N_PP": stages, **MESH}, "N_PP")
    return price(stages_of([report]) * stages, mesh, axis, NUMBERS, parts, cluster)


def test_an_axis_of_one_rank_sends_nothing_to_other_nodes() -> None:
    """Llama's sums over N_G*N_T stay in a node where one of the two has all its ranks."""
    file = MLP.parents[1] / "models" / "llama.xg"
    (report,) = xg.compile(file, plan="TP", mesh={"N_G": 4, "N_T": 1}).costs("float32", brief=True)
    numbers = {"B": 1, "S": 8, "N_G": 4, "N_T": 1, "V": 64, "D": 16, "N_L": 1, "N_H": 4}
    numbers |= {"N_KV": 4, "D_h": 4, "D_ff": 32}
    times = [
        price(
            stages_of([report]),
            {"N_G": 4, "N_T": 1},
            None,
            numbers,
            1,
            Cluster(machine(NEAR), far, 4),
        )
        for far in (machine(FAR), None)
    ]
    assert times[0] == times[1]


def test_one_step_by_hand(report: CostReport) -> None:
    """Nodes of 4: what is sent more, over N_D, stays inside, though N_T would fill the node."""
    found = priced(report, 4)
    assert found is not None
    assert found.inner == ("N_D",)
    assert found.computing == pytest.approx(COMPUTING)
    assert found.sent == pytest.approx({"N_D": SENT_D / NEAR, "N_T": SENT_T / FAR})
    assert found.sending == pytest.approx(SENT_D / NEAR + SENT_T / FAR)
    assert found.waiting == 0
    assert found.memory == pytest.approx(RESTING + SAVED + ALIVE)
    assert found.seconds == pytest.approx(COMPUTING + SENT_D / NEAR + SENT_T / FAR)


def test_nodes_that_hold_both_axes_or_none(report: CostReport) -> None:
    whole, alone = priced(report, 8, one_node=True), priced(report, 1)
    assert whole is not None
    assert alone is not None
    assert (whole.inner, alone.inner) == (("N_D", "N_T"), ())
    assert whole.sending == pytest.approx((SENT_D + SENT_T) / NEAR)
    assert alone.sending == pytest.approx((SENT_D + SENT_T) / FAR)
    assert priced(report, 4, one_node=True) is None


def test_microbatches_are_added_up_and_kept_until_their_way_back(report: CostReport) -> None:
    """Two equal stages: the first keeps two of three microbatches and waits for the second once.

    Gradients are summed once, behind the last microbatch, so it is N_T that stays inside nodes.
    """
    one, three = priced(report, 4), priced(report, 4, parts=3, stages=2)
    assert one is not None
    assert three is not None
    assert three.computing == pytest.approx(3 * one.computing)
    sums, moves = SENT_D / FAR, SENT_T / NEAR
    assert (one.inner, three.inner) == (("N_D",), ("N_T",))
    assert three.sending == pytest.approx(sums + 3 * moves)
    assert three.sent == pytest.approx({"N_D": sums, "N_T": 3 * moves})
    assert three.waiting == pytest.approx(COMPUTING + moves)
    assert three.memory == pytest.approx(RESTING + 2 * SAVED + ALIVE)
    assert three.seconds == pytest.approx(4 * (COMPUTING + moves) + sums)


def test_ranks_that_take_turns_wait_for_half_of_a_stage(report: CostReport) -> None:
    """Four stages on two ranks: a rank has twice the work, and the bubble is of one turn."""
    cluster = Cluster(machine(NEAR), None, 16)
    mesh = {"N_PP": 2, **MESH}
    found = price(stages_of([report]) * 4, mesh, "N_PP", NUMBERS, 3, cluster, "interleaved")
    assert found is not None
    assert found.computing == pytest.approx(3 * 2 * COMPUTING)
    assert found.waiting == pytest.approx(COMPUTING + SENT_T / NEAR)


HELD = """\
dim B, D = 8
mesh N_D = 2
block Net(X [B, D], t [B, D]) -> loss [] {
    param W [D, D], V [D, D]
    X -> •<=W -> tanh -> •<=V -> MSE<-t : loss
}
plan ZeRO1 of Net {
    X, t [B/N_D, D]
    *    [_/N_D, ..] -> [..] hold
}
plan ZeRO2 of Net {
    X, t [B/N_D, D]
    *    [_/N_D, ..] -> [..] keep
}
"""


def test_what_is_held_is_sent_once_and_rests_whole(tmp_path: Path) -> None:
    """Weights and their gradients: pieces, and wholes; of kept ones only pieces rest.

    Whole gradients wait for the last of several microbatches, and for nothing where there is one.
    """
    (tmp_path / "net.xg").write_text(HELD, encoding="utf-8")
    found: dict[str, list[MeshPrice]] = {}
    for plan in ("ZeRO1", "ZeRO2"):
        (report,) = xg.compile(tmp_path / "net.xg", plan=plan).costs("float32")
        whole, held_ = 2 * 8 * 8 * 4, plan == "ZeRO1"
        resting = whole / 2 + (whole if held_ else 0)
        memory = report.memory
        numbers = {"B": 6, "D": 8, "N_D": 2}
        found_ = [each.evaluate(numbers) for each in (memory.parameters, memory.gradients)]
        assert found_ == [resting, resting]
        assert memory.optimizer.evaluate(numbers) == whole
        cluster = Cluster(machine(NEAR), None, 2)
        prices = [
            price(stages_of([report]), {"N_D": 2}, None, numbers, parts, cluster)
            for parts in (1, 5)
        ]
        found[plan] = [each for each in prices if each]
        one, five = found[plan]
        assert five.memory - one.memory == (whole if held_ else 0)
    loss, gathers, scatters = 4, 2 * 8 * 8 * 4 / 2, 2 * 8 * 8 * 4 / 2
    for plan, times in (("ZeRO1", 1), ("ZeRO2", 5)):
        one, five = found[plan]
        assert one.sending == pytest.approx((loss + gathers + scatters) / NEAR)
        assert five.sending == pytest.approx((5 * loss + times * (gathers + scatters)) / NEAR)


def test_an_axis_of_one_rank_needs_no_place_in_a_node(report: CostReport) -> None:
    mesh = {**MESH, "N_D": 1}
    cluster = Cluster(machine(NEAR), machine(FAR), 4)
    found = price(stages_of([report]), mesh, None, {**NUMBERS, **mesh}, 1, cluster)
    assert found is not None
    assert found.inner == ("N_T",)


def test_what_makes_no_array_holds_none(tmp_path: Path) -> None:
    text = "dim B, D = 4\nblock Turn(X [B, D]) -> Y [D, B] {\n    X -> T : Y\n}\n"
    (tmp_path / "turn.xg").write_text(text, encoding="utf-8")
    (report,) = xg.compile(tmp_path / "turn.xg").costs("float32", brief=True)
    given = 3 * 4 * 4  # the gradient of Y
    assert held(stages_of([report]), {"B": 3, "D": 4}, 1, 1) == given


AGAIN = """\
dim B, D = 4
block F(X [B, D]) -> Y [B, D] {
    param W [D, D], V [D, D]
    X -> •<=W -> GELU -> •<=V : Y
}
block Net(X [B, D]) -> Y [B, D] {
    X -> F as first -> F as second : Y
}
plan Again of Net {
    first again
    second again
}
"""


def test_what_runs_again_holds_the_arrays_of_one_block(tmp_path: Path) -> None:
    """The parameters, the input of each block, and the arrays of the pass through the first.

    Those are dY of both, GELU's input and result, the gradients of these, and three between them.
    """
    (tmp_path / "again.xg").write_text(AGAIN, encoding="utf-8")
    (report,) = xg.compile(tmp_path / "again.xg", plan="Again").costs("float32")
    one = 3 * 5 * 4
    assert report.largest is not None
    assert report.largest.size.evaluate({"B": 3, "D": 5}) == one
    parameters, saved, alive = 4 * 2 * 2 * 5 * 5 * 4, 2 * one, (2 + 2 + 2 + 3) * one
    assert held(stages_of([report]), {"B": 3, "D": 5}, 1, 1) == parameters + saved + alive


def test_a_type_without_a_rate_has_no_price(report: CostReport) -> None:
    slow = Machine("m", "M", "", {"float64": RATE}, NEAR, 0.0, {})
    assert price(stages_of([report]), MESH, None, NUMBERS, 1, Cluster(slow, slow, 8)) is None


def test_shapes_of_meshes() -> None:
    assert list(shapes("ab", 12)) == [
        {"a": 2, "b": 6},
        {"a": 3, "b": 4},
        {"a": 4, "b": 3},
        {"a": 6, "b": 2},
    ]
    assert list(shapes("a", 7)) == [{"a": 7}]
    assert list(shapes((), 1)) == [{}]
    assert list(shapes((), 2)) == []
