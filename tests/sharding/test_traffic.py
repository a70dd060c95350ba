"""The traffic of a placed program: formulas checked by hand, and against what ranks send."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pytest
from sharding.ranks import interpreted

import xg
import xg_runtime.ranks as ranks
from xg.cost.communication import traffic
from xg.driver import Program
from xg.verify.reference.interpret import initial

MODEL = Path(__file__).parents[2] / "diagrams" / "models" / "transformer.xg"
SIZES = {"B": 6, "S": 6, "V": 12, "D": 12, "N_H": 6, "N_L": 2, "S_max": 12}
Counts = dict[tuple[str, str, str], tuple[int, int]]


@cache
def planned(plan: str, n_d: int = 2, n_t: int = 3) -> Program:
    return xg.compile(MODEL, "LM", plan=plan, sizes=SIZES, mesh={"N_D": n_d, "N_T": n_t})


def said(plan: str, direction: str, block: str) -> list[tuple[str, str, str, str]]:
    """The messages that one block sends: kind, mesh axis, payload, how often."""
    placed = planned(plan).distributed
    assert placed
    return [
        (each.kind, each.over, str(each.payload), str(each.count))
        for each in traffic(placed)
        if each.direction == direction and placed.graphs[each.key].block == block
    ]


def test_tensor_parallel_sums_the_stream_twice_in_each_pass_of_a_layer() -> None:
    stream = ("all_reduce", "N_T", "B*D*S", "N_L")
    assert said("TP", "forward", "Attention") == said("TP", "forward", "MLP") == [stream]
    # Of attention after its three products are summed, of the perceptron beside dW_up.
    assert said("TP", "backward", "Layer") == said("TP", "backward", "MLP") == [stream]
    assert not said("TP", "forward", "LM")


def test_data_parallel_sums_every_gradient_once() -> None:
    assert said("DP", "forward", "LM") == [("all_reduce", "N_D", "1", "1")]
    matrices = [each for each in said("DP", "backward", "MLP") if "^2" in each[2]]
    assert matrices == [("all_reduce", "N_D", "4*D^2", "N_L")] * 2
    assert len(said("DP", "backward", "Attention")) == 8
    others = [payload for _, _, payload, _ in said("DP", "backward", "LM")]
    assert others == ["D", "D", "D*S_max", "D*V"]  # of whole tables, as they are learned
    cut = [each for each in said("DP_TP", "backward", "MLP") if "^2" in each[2]]
    assert cut == [("all_reduce", "N_D", "4*D^2/N_T", "N_L")] * 2


def test_a_loss_over_a_cut_vocabulary_sends_three_numbers_for_each_token() -> None:
    found = [kind for kind, _, payload, _ in said("VP", "forward", "LM") if payload == "B*S"]
    assert found == ["all_reduce_max", "all_reduce", "all_reduce"]


def formulas(program: Program, sizes: dict[str, int]) -> Counts:
    """Calls and elements by pass, kind and mesh axis."""
    assert program.distributed
    found: Counts = {}
    for each in traffic(program.distributed):
        key = each.direction, each.kind, each.over
        calls, elements = found.get(key, (0, 0))
        found[key] = (
            calls + each.count.evaluate(sizes),
            elements + each.elements.evaluate(sizes),
        )
    return found


@pytest.mark.parametrize("plan", ["VP", "FSDP", "DP_SP"])
def test_formulas_say_what_ranks_send(plan: str) -> None:
    many, one = planned(plan), xg.compile(MODEL, "LM", sizes=SIZES)
    module, random = many.load(), np.random.default_rng(0)
    params = initial(one.graphs)
    inputs = {name: random.integers(0, SIZES["V"], (6, 6)) for name in ("ids", "t")}

    def rank() -> Counts:
        counters = ranks.current().counters
        mine = ranks.local_shards(params, module.cuts())
        with counters.during("forward"):
            outputs, saved = module.forward(mine, ranks.local_shards(inputs, module.cuts()))
        with counters.during("backward"):
            module.backward(mine, saved, outputs)
        return {key: (count.calls, count.elements) for key, count in counters.counts.items()}

    sizes = {**SIZES, **many.graphs.mesh}
    for counted in ranks.simulate(many.graphs.mesh, rank):
        assert counted == formulas(many, sizes)


SUMS = """\
dim B = 4, F = 6, V = 5
block Judge(X [B, F], t [B] in V) -> loss [] {
    param W [F, V]
    X -> •<=W -> CE<-t : loss
}
block Fit(X [B, F], Y [B, V]) -> loss [] {
    param W [F, V]
    X -> •<=W -> MSE<-Y : loss
}
mesh N_T = 3
plan Rows of Judge {
    X [B, F/N_T]
    W [F/N_T, V]
}
plan Rows of Fit {
    X [B, F/N_T]
    W [F/N_T, V]
}
"""


@pytest.mark.parametrize("block", ["Judge", "Fit"])
def test_a_sum_that_a_loss_reads_is_made_once_before_it(tmp_path: Path, block: str) -> None:
    """Inside the loss it would be made in the backward pass once more."""
    (tmp_path / "sums.xg").write_text(SUMS, encoding="utf-8")
    one = xg.compile(tmp_path / "sums.xg", block)
    many = xg.compile(tmp_path / "sums.xg", block, plan="Rows")
    assert many.distributed
    assert [(each.kind, str(each.payload)) for each in traffic(many.distributed)] == [
        ("all_reduce", "B*V")
    ]
    random = np.random.default_rng(0)
    inputs = {"X": random.standard_normal((4, 6)), "t": random.integers(0, 5, 4)}
    inputs |= {"Y": random.standard_normal((4, 5))}
    named = {name: inputs[name] for name in one.inputs}
    assert max(interpreted(one, many, initial(one.graphs), named).values()) < 1e-12


READ_TWICE = """\
dim B = 4, D = 6
mesh N_T = 3
block F(X [B, D]) -> Y [B, D] {
    param W [D, D]
    X -> •<=W : Y
}
block Net(X [B, D]) -> Y [B, D], Z [B, D] {
    param V [D, D]
    X -> •<=V : H -> tanh : Y
    H -> F -> tanh : Z
}
plan TP of Net {
    V [D/N_T, D]
}
plan TP of F {
    W [D, D/N_T]
}
"""
TABLE = """\
dim B = 12, S = 4, D, S_max = 9
mesh N_D = 3, N_T = 2
block Net(X [B, S, D]) -> Y [B, S, D] {
    param E [S_max, D]
    range(S) -> Emb(E) -> BC -> ⊕<-X : Y
}
plan TP of Net {
    X [B/(N_D*N_T), S, D]
}
"""


@pytest.mark.parametrize(
    ("text", "sent"),
    [
        (READ_TWICE, ["forward B*D", "backward B*D", "backward B*D"]),
        (TABLE, ["backward D*S_max"]),
        (TABLE.replace("range(S) -> Emb(E)", "fill[S, S_max](1) -> •<=E"), ["backward D*S"]),
    ],
    ids=["a sum that is cast too", "a table that is learned", "a product"],
)
def test_each_value_is_sent_once(tmp_path: Path, text: str, sent: list[str]) -> None:
    (tmp_path / "net.xg").write_text(text, encoding="utf-8")
    placed = xg.compile(tmp_path / "net.xg", "Net", plan="TP").distributed
    assert placed
    assert [f"{each.direction} {each.payload}" for each in traffic(placed)] == sent
