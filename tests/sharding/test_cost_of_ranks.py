"""What `xg cost` says of a rank is what a simulated rank holds, keeps and sends."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from numpy.typing import NDArray

import xg
import xg_runtime.ranks as ranks
from xg.cost import cost
from xg.interpret import initial

TRANSFORMER = Path(__file__).parents[2] / "diagrams" / "transformer.xg"
SIZES = {"B": 4, "S": 6, "D": 12, "N_H": 6, "N_L": 2, "V": 18, "S_max": 12}
MESH = {"N_D": 2, "N_T": 3}


@pytest.mark.parametrize("plan", ["TP", "DP_TP", "SP", "FSDP_TP", "All"])
def test_a_rank_holds_keeps_and_sends_as_counted(plan: str) -> None:
    program = xg.compile(TRANSFORMER, plan=plan, sizes=SIZES, mesh=MESH)
    single = xg.compile(TRANSFORMER, sizes=SIZES)
    module, params = program.load(), initial(single.graphs)
    where = module.cuts()
    draw = np.random.default_rng(0)
    shape = (SIZES["B"], SIZES["S"])
    inputs = {name: draw.integers(0, SIZES["V"], shape) for name in ("ids", "t")}

    def rank() -> tuple[int, int, int]:
        mine = ranks.parts(params, where)
        _, saved = module.forward(mine, ranks.parts(inputs, where), seed=1)
        module.backward(mine, saved, {"loss": np.ones(())})
        counts = ranks.current().tally.counts
        held = sum(array.size for array in mine.values())
        kept = sum({id(array): array.nbytes for array in arrays(saved)}.values())
        return held, kept, sum(count.elements for count in counts.values())

    found = set(ranks.simulate(program.graphs.mesh, rank))
    report, numbers = program.cost(), program.cost().numbers
    total = cost(program.graphs, "float64").total
    sent = sum(part.payload.evaluate(numbers) for part in report.sent)
    assert found == {(total.parameters.evaluate(numbers), total.saved.evaluate(numbers), sent)}


def arrays(saved: object) -> Iterator[NDArray[Any]]:
    """Every array in what a forward pass keeps."""
    pending = [saved]
    while pending:
        part = pending.pop()
        if isinstance(part, np.ndarray):
            yield part
        elif isinstance(part, (tuple, list)):
            pending.extend(cast("list[object]", part))
