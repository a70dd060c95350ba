"""Communicators are data of a program: derived, the same on all ranks, and checked."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch.distributed as dist
from frontend.plans.shipped import DIAGRAMS, MODELS
from runtime.ranks.alone import rank_of
from sharding.test_pipelines import net
from tier import THOROUGH, some
from verify.proof.sweep import Job, axes_of_plans, prove, shipped_project

import xg
from xg.cli import main
from xg.cli.rank_proofs import prove_pipeline_on_processes
from xg.driver import Program, compile_project
from xg.frontend.plan_in_choices import plans_of
from xg.frontend.project import read_project
from xg.ir.moves import clashes, differing_orders, groups
from xg.ir.verify import violations
from xg.verify.plan_proof import prepared
from xg_runtime.errors import InputError
from xg_runtime.ranks import all_reduce

# Products that no file names, of every number of axes, and a pipeline with axes beside it.
PRODUCTS = ["ZeRO1 × Ulysses", "DP × PP", "DP × CP × PP", "PP × FSDP × SP", "DP × CP × SP × PP"]
FOUR = {"N_D": 2, "N_S": 1, "N_T": 2, "N_PP": 2}
SMALL = {"N_L": 2, "D": 16, "N_H": 4}


@cache
def shipped() -> list[tuple[str, str, tuple[str, ...]]]:
    """Return every plan that a shipped model names, and products, with the axes of the mesh."""
    found = [(file, name, axes) for file in MODELS for name, axes in axes_of_plans(file).items()]
    whole = plans_of(shipped_project("models/transformer.xg"), {})
    for each in PRODUCTS:
        axes = dict.fromkeys(axis for name in each.split(" × ") for axis in whole[name].mesh)
        found.append(("models/transformer.xg", each, tuple(axes)))
    return found


# One plan for each set of axes, or all of them.
TRIED = some(shipped(), lambda each: frozenset(each[2]))


def four() -> Program:
    """Compile the product of four dimensions."""
    file = DIAGRAMS / "models/transformer.xg"
    return xg.compile(file, plan=PRODUCTS[-1], mesh=FOUR, sizes=SMALL)


@pytest.mark.parametrize(("file", "plan", "axes"), TRIED, ids=str)
def test_the_communicators_of_every_plan_are_sound(
    file: str, plan: str, axes: tuple[str, ...]
) -> None:
    settings = {**dict.fromkeys(axes, 2), **({"N_L": 2} if "N_PP" in axes else {})}
    program = compile_project(shipped_project(file), MODELS[file], settings, plan)
    made = program.communicators()
    assert [each for each in made if "*" not in each] == list(program.mesh)
    for over in made:
        members = groups(over, program.mesh)
        assert sorted(rank for group in members for rank in group) == list(
            range(prod(program.mesh.values()))
        )


def test_stages_make_the_same_communicators_whatever_they_call() -> None:
    program = four()
    assert program.communicators() == ("N_PP", "N_D", "N_T", "N_D*N_T")
    assert {stage.graphs.communicators for stage in program.stages} == {("N_D", "N_T", "N_D*N_T")}
    assert groups("N_D*N_T", program.mesh) == ((0, 1, 2, 3), (4, 5, 6, 7))
    assert groups("N_PP", program.mesh) == ((0, 4), (1, 5), (2, 6), (3, 7))


def test_a_planted_communicator_that_lacks_is_refused_by_name() -> None:
    stage = four().stages[0].graphs
    assert not [*violations(stage)]
    planted = replace(stage, communicators=("N_D", "N_T"))
    said = [*violations(planted)]
    assert said
    assert all(each.endswith("for which ranks make no communicator") for each in said)
    assert any("all_reduce goes over N_D*N_S*N_T" in each for each in said)
    twice = replace(stage, communicators=(*stage.communicators, "N_D*N_S"))
    assert [*violations(twice)] == ["the communicators N_D and N_D*N_S have the same groups"]


def test_a_planted_clash_is_refused_by_name() -> None:
    mesh = {"N_P": 2, "N_D": 2, "N_S": 1}
    assert [*clashes(("N_P", "N_D", "N_P*N_D"), mesh)] == []
    assert [*clashes(("N_D", "N_D*N_S"), mesh)] == [
        "the communicators N_D and N_D*N_S have the same groups"
    ]
    assert [*clashes(("N_D", "N_X"), mesh)] == [
        "the communicator N_X spans N_X, which is no axis of the mesh"
    ]


def test_a_planted_order_is_refused_by_name() -> None:
    made = ("N_D", "N_T", "N_D*N_T")
    assert [*differing_orders([made, made])] == []
    assert [*differing_orders([made, ("N_T", "N_D", "N_D*N_T")])] == [
        "stage 1 makes the communicator N_T in turn 1, where stage 0 makes N_D"
    ]
    assert [*differing_orders([made, made[:2]])] == [
        "stage 1 makes the communicator none in turn 3, where stage 0 makes N_D*N_T"
    ]


def test_a_rank_makes_one_group_of_each_communicator_before_it_starts() -> None:
    mesh = {"N_P": 2, "N_D": 2, "N_T": 2}
    with rank_of(mesh, 5, "cpu") as every:
        assert every.size("N_P*N_D*N_T") == 8
        assert float(all_reduce(np.ones(()), "N_D*N_T")) == 1  # the other ranks do not exist
    with rank_of(mesh, 5, "cpu", ["N_D*N_T"]):
        made: Any = dist.distributed_c10d
        names = [group.group_desc for group in made._world.pg_names]
        assert names.count("N_D*N_T: 4, 5, 6, 7") == 1
        all_reduce(np.ones(()), "N_D*N_T")
        with pytest.raises(InputError, match=r"no communicator over N_P\*N_T was made before"):
            all_reduce(np.ones(()), "N_P*N_T")


def losses(folder: Path) -> list[float]:
    """Return the losses of a run."""
    lines = (folder / "log.jsonl").read_text(encoding="utf-8").splitlines()
    return [each["loss"] for each in map(json.loads, lines) if "loss" in each]


@pytest.mark.usefixtures("warm_ranks")
def test_a_product_of_four_dimensions_trains_on_eight_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its stages call sums over several axes in orders of their own."""
    monkeypatch.chdir(tmp_path)
    words = ["train", str(DIAGRAMS / "models/transformer.xg"), "--seq", "8", "--batch", "4"]
    words += ["--steps", "2", "--eval", "0", "--accumulate", "2", "--backend", "torch"]
    words += [word for name, size in SMALL.items() for word in ("--set", f"{name}={size}")]
    mesh = [word for name, size in FOUR.items() for word in ("--set", f"{name}={size}")]
    many = [*words, *mesh, "--plan", PRODUCTS[-1], "--on", "processes"]
    assert main([*many, "--timeout", "60", "--out", "many"]) == 0
    assert main([*words, "--out", "one"]) == 0
    assert losses(tmp_path / "many") == pytest.approx(losses(tmp_path / "one"), rel=1e-4)


# Products on up to eight processes, one for each set of axes.
KINDS = some(
    (each for each in shipped() if len(each[2]) > 1),
    lambda each: frozenset(each[2]),
    thorough=False,
)


@pytest.mark.usefixtures("warm_ranks")
@pytest.mark.parametrize(
    ("file", "plan", "axes"),
    KINDS if THOROUGH else [each for each in KINDS if each[1] == "DP × PP"],
    ids=str,
)
def test_products_are_proven_on_processes(file: str, plan: str, axes: tuple[str, ...]) -> None:
    mesh = tuple((axis, 2 if place < 3 else 1) for place, axis in enumerate(axes))
    said, holds = prove(Job(file, mesh, (plan,), "processes"))
    assert holds, said


@pytest.mark.usefixtures("warm_ranks")
def test_interleaved_stages_that_share_a_table_are_proven_on_processes(tmp_path: Path) -> None:
    """In every schedule; each rank has two stages, and two ranks sum the gradient of E."""
    found = prepared(read_project(net(tmp_path)), "Net", "Turns × DP", {"N_P": 2, "N_D": 2})
    proof = prove_pipeline_on_processes(found, 0, 60.0, kernels=False)
    assert proof.passed, proof
