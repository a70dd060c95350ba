"""The costs that `xg cost` prints for a rank are what a simulated rank holds, keeps and sends."""

from __future__ import annotations

from pathlib import Path

import pytest
from saved import arrays_in

import xg
import xg_runtime.ranks as ranks
from xg.cost.cost import cost
from xg.verify.reference import random as invented
from xg.verify.reference.interpret import Interpreter, initial

DIAGRAMS = Path(__file__).parents[2] / "diagrams"
SIZES = {"B": 4, "S": 6, "D": 12, "N_H": 6, "N_L": 2, "V": 18, "S_max": 12}


@pytest.mark.parametrize("plan", ["TP", "DP_TP", "SP", "FSDP_TP", "All"])
def test_a_rank_holds_keeps_and_sends_as_counted(plan: str) -> None:
    mesh = {"N_D": 2, "N_T": 3}
    compare(xg.compile(DIAGRAMS / "models" / "transformer.xg", plan=plan, sizes=SIZES, mesh=mesh))


@pytest.mark.parametrize("block", ["MLP_i", "MHA_i", "MLP_sp"])
def test_so_does_one_that_is_written_by_hand(block: str) -> None:
    compare(xg.compile(DIAGRAMS / "notation" / "node_i.xg", block, sizes={"B": 2, "S": 6}))


@pytest.mark.parametrize(("plan", "other"), [("FSDP", "DP"), ("FSDP_TP", "DP_TP")])
def test_what_is_gathered_is_used_for_a_ranks_own_rows_only(plan: str, other: str) -> None:
    """A bias that was gathered is repeated for the rows of the rank, not for those of all."""
    first, second = (
        xg.compile(DIAGRAMS / "models" / "transformer.xg", plan=name, sizes=SIZES).cost().total
        for name in (plan, other)
    )
    assert (first.forward, first.backward) == (second.forward, second.backward)


def compare(program: xg.Program) -> None:
    """Hold the numbers of a report against what every rank of a mesh has and counts."""
    alone = program.on_one_device.graphs
    module, params, inputs = program.load(), initial(alone), invented.inputs(alone, 0)
    where = module.cuts()
    outputs, _ = Interpreter(alone, params, 0).forward(inputs)
    cotangents = invented.cotangents(outputs, 0)

    def rank() -> tuple[int, int, int]:
        mine = ranks.local_shards(params, where)
        _, saved = module.forward(mine, ranks.local_shards(inputs, where), seed=1)
        module.backward(mine, saved, ranks.local_shards(cotangents, where))
        counts = ranks.current().counters.counts
        held = sum(array.size for array in mine.values())
        kept = sum({id(array): array.nbytes for array in arrays_in(saved)}.values())
        return held, kept, sum(count.elements for count in counts.values())

    found = set(ranks.simulate(program.graphs.mesh, rank))
    report, numbers = program.cost(), program.cost().numbers
    total = cost(program.graphs, "float64").total
    sent = sum(part.payload.evaluate(numbers) for part in report.sent)
    assert found == {(total.parameters.evaluate(numbers), total.saved.evaluate(numbers), sent)}
