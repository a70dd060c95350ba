"""Pipelines: one runner, a program after every pass, each verified."""

import re
from dataclasses import replace

import pytest
from library import LIBRARY

from xg.frontend.project import read_project
from xg.frontend.typed import type_project
from xg.ir.graph import IRProgram, Value
from xg.ir.verify import BrokenProgram
from xg.passes.pipelines import BLOCKS, EVERY_PASS, PARALLEL, SINGLE, VERIFY, Pass, run
from xg_kernels.pipelines import FUSED, FUSED_PASSES, FUSED_RANK, FUSED_STEP


@pytest.fixture(scope="module")
def typed() -> IRProgram:
    project = read_project(LIBRARY / "models" / "transformer.xg")
    return type_project(project, "MLP", None, "TP")


def test_the_history_has_the_program_after_every_pass(typed: IRProgram) -> None:
    history = run(PARALLEL, typed)
    assert [name for name, _ in history.stages] == ["infer", *(each.name for each in PARALLEL)]
    assert history.after("infer") is typed
    assert not history.after("place").backwards
    assert history.after("differentiate").backwards
    assert history.result is history.after("localize")


def test_a_pass_that_breaks_a_rule_is_named(
    typed: IRProgram, monkeypatch: pytest.MonkeyPatch
) -> None:
    def loses_its_result(program: IRProgram) -> IRProgram:
        graph = replace(program.main, outputs=(Value("Q", "edge", program.main.span),))
        return replace(program, graphs={**program.graphs, program.entry: graph})

    broken = Pass("lose", "loses a result", loses_its_result)
    monkeypatch.setenv(VERIFY, "1")
    with pytest.raises(BrokenProgram, match="after the pass lose:\nMLP: returns Q"):
        run((*SINGLE[:1], broken), typed)
    monkeypatch.delenv(VERIFY)
    run((*SINGLE[:1], broken), typed)


def test_every_pass_has_a_name_of_its_own_and_is_used() -> None:
    names = [each.name for each in (*EVERY_PASS, *FUSED_PASSES)]
    assert len(set(names)) == len(names)
    assert all(re.fullmatch("[a-z]+(-[a-z]+)*", name) for name in names)
    assert all(" " in each.says and each.says[0].islower() for each in (*EVERY_PASS, *FUSED_PASSES))
    every = (SINGLE, FUSED, FUSED_STEP, PARALLEL, FUSED_RANK, BLOCKS)
    assert {each.name for pipeline in every for each in pipeline} == set(names)
