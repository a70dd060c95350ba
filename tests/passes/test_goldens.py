"""Goldens of the passes: what each makes of a small program, as printed IR.

``<pass>/<case>.xg`` is compiled up to the pass, under the plan that it declares, if any; to
``<pass>/<case>.before.ir`` the pass alone is applied. ``<pass>/<case>.ir`` is the program after it.
"""

from collections.abc import Callable
from pathlib import Path

import pytest
from ir_reader import read_program

from xg.frontend.project import read_project
from xg.frontend.typed import type_project
from xg.ir.graph import IRProgram
from xg.ir.verify import verify
from xg.passes.ir_text import spell_program
from xg.passes.pipelines import (
    DIFFERENTIATE,
    DROP_MESH,
    ELIMINATE_DEAD,
    EVERY_PASS,
    OUTLINE,
    PARALLEL,
    SINGLE,
    Pass,
    run,
)
from xg.syntax import ast
from xg.syntax.ast import only
from xg_kernels.pipelines import COLLECT, FUSE, FUSED_PASSES, GROUP, HOIST, PREPARE, REUSE, SHARE

FOLDER = Path(__file__).parent
PASSES = {each.name: each for each in (*EVERY_PASS, *FUSED_PASSES)}
BEFORE = ".before.ir"
CASES = sorted(
    path
    for name in PASSES
    for path in (FOLDER / name).glob("*")
    if path.name.endswith((".xg", BEFORE))
)


def _id(path: Path) -> str:
    return f"{path.parent.name}/{path.name}"


def _pipeline(name: str, program: IRProgram) -> tuple[Pass, ...]:
    """Every pass up to the one of that name."""
    pipeline = PARALLEL if program.is_parallel and name != DROP_MESH.name else SINGLE
    if name in (HOIST.name, FUSE.name, SHARE.name, PREPARE.name, OUTLINE.name):
        pipeline = (DROP_MESH, ELIMINATE_DEAD, PASSES[name])
    if name == GROUP.name:
        pipeline = (DROP_MESH, ELIMINATE_DEAD, FUSE, GROUP)
    if name == COLLECT.name:
        pipeline = (DROP_MESH, ELIMINATE_DEAD, DIFFERENTIATE, COLLECT)
    if name == REUSE.name:
        pipeline = (DROP_MESH, ELIMINATE_DEAD, DIFFERENTIATE, REUSE)
    end = [each.name for each in pipeline].index(name)
    return pipeline[: end + 1]


def _after(path: Path) -> IRProgram:
    """The program of a case after the pass that its folder is named for."""
    name = path.parent.name
    if path.name.endswith(BEFORE):
        before = read_program(path.read_text(encoding="utf-8"), path.name)
        verify(before)
        return PASSES[name].run(before)
    project = read_project(path)
    plans = [plan.name.name for plan in only(ast.Plan, project.main.plan_decls)]
    typed = type_project(project, None, None, plans[0] if plans else None)
    return run(_pipeline(name, typed), typed).result


@pytest.mark.parametrize("path", CASES, ids=_id)
def test_a_pass_makes_of_a_program_what_its_golden_says(
    path: Path, golden: Callable[[Path, str], None]
) -> None:
    case = path.name.removesuffix(".xg").removesuffix(BEFORE)
    text = spell_program(_after(path))
    golden(path.with_name(f"{case}.ir"), text)
    verify(read_program(text))


@pytest.mark.parametrize("name", PASSES)
def test_every_pass_has_goldens(name: str) -> None:
    assert any(path.parent.name == name for path in CASES)


def test_no_golden_is_left_over() -> None:
    cases = {path.parent / path.name.removesuffix(".xg").removesuffix(BEFORE) for path in CASES}
    goldens = {path for name in PASSES for path in (FOLDER / name).glob("*.ir")}
    results = {path for path in goldens if not path.name.endswith(BEFORE)}
    assert {path.with_suffix("") for path in results} == cases
