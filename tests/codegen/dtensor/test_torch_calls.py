"""Plans as calls of torch: which there are, and what is refused with its reason."""

from __future__ import annotations

import ast

import pytest
from frontend.plans.shipped import tried
from library import LIBRARY, shipped
from tier import THOROUGH

import xg as package
from xg.codegen.errors import NoParallelStyle
from xg.diagnostics.diagnostic import DiagnosticError
from xg.frontend.project import read_project
from xg_torch.dtensor.styles import ModuleNames
from xg_torch.dtensor.torch_calls import source

DAILY = ("clip", "mixtral", "transformer")  # those of Llama and perceptrons run in `test_divided`
WITH_PLANS = [
    file.stem
    for file in sorted(LIBRARY.glob("*/*.xg"))
    if "\nplan " in file.read_text(encoding="utf-8") and (THOROUGH or file.stem in DAILY)
]


def refused(plan: str, file: str = "transformer", **sizes: int) -> str:
    """The reason why there are no calls for a plan."""
    program = package.compile(str(shipped(file)), plan=plan, sizes=sizes)
    assert program.distributed is not None
    with pytest.raises(DiagnosticError) as caught:
        source(program.distributed, program.graphs, ModuleNames())
    (problem,) = caught.value.diagnostics
    assert problem.code == NoParallelStyle.code
    return problem.message.partition(f" for plan {plan}: ")[2]


def written(name: str, plan: str) -> str | None:
    """The calls for a plan of a shipped diagram; None for one that is refused, or is of a part."""
    try:
        program = package.compile(str(shipped(name)), plan=plan)
        assert program.distributed is not None
        return source(program.distributed, program.graphs, ModuleNames())
    except DiagnosticError:
        return None


@pytest.mark.parametrize("name", WITH_PLANS)
def test_what_is_written_is_python_that_imports_what_it_calls(name: str) -> None:
    texts = [written(name, plan) for plan in tried(read_project(str(shipped(name))))]
    for text in filter(None, texts):
        nodes = list(ast.walk(ast.parse(text)))
        froms = [node for node in nodes if isinstance(node, ast.ImportFrom)]
        known = {alias.name for node in froms for alias in node.names}
        calls = [node.func for node in nodes if isinstance(node, ast.Call)]
        called = {node.id for node in calls if isinstance(node, ast.Name)}
        assert called <= known
        assert known - called <= {"DeviceMesh", "nn"}
        assert max(map(len, text.splitlines())) <= 100


@pytest.mark.parametrize(
    ("plan", "reason"),
    [
        ("CP", "ids is cut along N_S, and not by rows"),
        ("KV", "S of Attention sums over ranks inside"),
        ("PP", "it has the stages of a pipeline"),
        ("VP", "E is used twice, and the second use belongs to no module"),
        ("Checkpoints", "Layer is computed again, or goes round a ring"),
        ("ZeRO1", "layers.*.gamma_1 is held for all microbatches of a step"),
        ("DP × Replicas", "N_R and N_D both divide rows"),
    ],
)
def test_the_reason_is_said(plan: str, reason: str) -> None:
    assert refused(plan) == reason


def test_two_axes_of_a_model_are_refused() -> None:
    assert refused("TP", "llama") == "N_G and N_T both divide the model"
