"""The bytes that the cost model holds, beside those that torch's profiler counts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest
from bench.memory import CASES, MODELS, SIZES, measured
from tier import THOROUGH, some

import xg
from xg.cost.stage_cost import StageCost, held, stages_of

FEW = [case for case in CASES if case[:2] in {("llama", "FSDP"), ("transformer", "ZeRO1")}]


def counted(
    model: str, plan: str, mesh: Mapping[str, int], sizes: Mapping[str, int]
) -> tuple[float, StageCost, Mapping[str, int]]:
    """The bytes that torch counts, the cost of the plan, and the numbers of its formulas."""
    program = xg.compile(MODELS / f"{model}.xg", plan=plan, sizes=sizes, mesh=mesh)
    (report,) = program.costs("float32")
    (cost,) = stages_of([report])
    return measured(program), cost, {**report.numbers, **sizes, **mesh}


@pytest.mark.parametrize(("model", "plan", "mesh"), FEW)
def test_with_few_layers_it_is_within_a_tenth(model: str, plan: str, mesh: dict[str, int]) -> None:
    """Arrays of the layer that runs weigh more where few layers save theirs."""
    seen, cost, numbers = counted(model, plan, mesh, {**SIZES[model], "N_L": 4})
    assert seen == pytest.approx(held([cost], numbers, 1, 1), rel=0.1)
    assert seen > 1.1 * held([replace(cost, alive=())], numbers, 1, 1)  # negative control


def tried(model: str, plan: str) -> Mapping[str, int]:
    """The sizes of the benchmark, daily by half: the same ratios, of half the layers.

    Where layers are computed again they are as many: each saves little.
    """
    part = 1 if THOROUGH else 2
    halved = ["S", "S_max", "D", "D_ff", "V", *(["N_L"] if "Checkpoints" not in plan else [])]
    return {name: n // part if name in halved else n for name, n in SIZES[model].items()}


def plan_of(case: tuple[str, str, Mapping[str, int]]) -> str:
    return case[1]


# Each plan once: with the first model that has it. DP and TP are in others; ZeRO1 is counted above.
PARTS = () if THOROUGH else ("DP", "TP", "ZeRO1")
TRIED = [case for case in some(CASES, plan_of) if case[1] not in PARTS]


@pytest.mark.parametrize(("model", "plan", "mesh"), TRIED)
def test_torch_counts_what_is_held_within_a_twentieth(
    model: str, plan: str, mesh: dict[str, int]
) -> None:
    seen, cost, numbers = counted(model, plan, mesh, tried(model, plan))
    whole = held([cost], numbers, 1, 1)
    assert seen == pytest.approx(whole, rel=0.05)
    for part in ("resting", "saved"):  # negative control: each part is needed
        without = replace(cost, **{part: ()})
        assert abs(seen - held([without], numbers, 1, 1)) > 2 * abs(seen - whole)
