"""Every plan that is shipped reaches its model, and is checked with it."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import pytest
from frontend.plans.shipped import DIAGRAMS, MODELS, names

from xg.frontend.plan_in_choices import plans_of
from xg.frontend.project import Project, read_project
from xg.frontend.typed import type_project
from xg.ir.placement import ROUNDS
from xg.ir.walk import moving
from xg.sharding.apply_plan import cut_row, placed_values, with_mesh


@cache
def project(file: str) -> Project:
    return read_project(DIAGRAMS / file)


def shipped() -> Iterator[tuple[str, str]]:
    for file in MODELS:
        yield from ((file, name) for name in names(project(file)))


def test_every_model_has_the_usual_plans() -> None:
    for file in MODELS:
        plans = set(names(project(file)))
        assert {"TP", "DP", "FSDP", "DP_TP", "FSDP_TP"} <= plans
        # Of images with 197 and 50 positions or with two axes of them, and of a loop over them.
        without = ("vit", "clip", "rwkv", "resnet")
        whole = file in [f"models/{name}.xg" for name in without]
        assert ("SP" in plans) == (not whole)


@pytest.mark.parametrize(("file", "plan"), list(shipped()))
def test_a_shipped_plan_fits(file: str, plan: str) -> None:
    found = plans_of(project(file))[plan]
    typed = type_project(project(file), MODELS[file], {}, plan)
    row = cut_row(typed)  # whose stages are an axis that no value is placed along
    stages = {row.axis} if row else set[str]()
    assert set(with_mesh(typed).mesh) | stages == set(found.mesh)
    values = list(placed_values(typed))
    placing = {entry.plan for entry in found.entries if entry.rest and entry.path[-1] != ROUNDS}
    reached = {entry for one in values for entry in one.planned.entries}
    assert {entry.plan for entry in reached if entry.rest} == placing
    if plan == "FSDP":
        params = [one for one in values if one.planned.value.role == "param"]
        graphs = typed.graphs.values()
        assert {(one.planned.graph.key, one.planned.value) for one in params} == {
            (graph.key, param.value)
            for graph in graphs
            for param in graph.params
            if param.value not in {each.param for each in moving(graph)}  # whole on every rank
        }
        cuttable = [
            each for one in params if (each := one.planned).graph.types[each.value].shape
        ]  # CLIP's temperature is not
        assert all(each.placing.rest and not each.placing.use for each in cuttable)
