"""The bytes that the cost model holds, beside those that torch's profiler counts."""

from __future__ import annotations

from dataclasses import replace

import pytest
from bench.memory import CASES, MODELS, SIZES, measured

import xg
from xg.cost.mesh_price import held
from xg.cost.stage_cost import stages_of

PLANS = {"transformer": ("SP_VP", "FSDP", "Ring"), "llama": ("DP", "FSDP"), "mixtral": ("DP", "EP")}
SOME = [case for case in CASES if case[1] in PLANS[case[0]]]


@pytest.mark.parametrize(("model", "plan", "mesh"), SOME)
def test_torch_counts_what_is_held_within_a_tenth(
    model: str, plan: str, mesh: dict[str, int]
) -> None:
    program = xg.compile(MODELS / f"{model}.xg", plan=plan, sizes=SIZES[model], mesh=mesh)
    (report,) = program.costs("float32")
    (cost,) = stages_of([report])
    numbers = {**report.numbers, **SIZES[model], **mesh}
    seen = measured(program)
    assert seen == pytest.approx(held([cost], numbers, 1), rel=0.1)
    for part in ("resting", "saved"):  # negative control: each part is needed
        without = replace(cost, **{part: ()})
        assert seen != pytest.approx(held([without], numbers, 1), rel=0.1)
