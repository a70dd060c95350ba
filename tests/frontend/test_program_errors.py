"""Every error in names and shapes is reported as its golden file shows."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules

import pytest

from xg import frontend, sharding
from xg.diagnostics.diagnostic import Diagnostic, Problem, render
from xg.frontend import examples
from xg.frontend.choices import check_choices
from xg.frontend.project import read_project
from xg.passes import infer, resolve, shard
from xg.passes.resolve import call_errors as of_calls
from xg.passes.resolve import errors as of_resolve
from xg.sharding import errors as of_sharding

FOLDER = Path(__file__).parent / "errors"
CASES = sorted(FOLDER.glob("*.xg"))

# Each stage's kinds of errors that a file shows; `project` needs several files, `define` has cases
# in tests/passes.
STAGES = (frontend, examples, resolve, infer, shard, sharding)
MODULES = [
    import_module(f"{stage.__name__}.{info.name}")
    for stage in STAGES
    for info in iter_modules(stage.__path__)
    if info.name.endswith("errors")
]

# No file of its own shows these: the syntax finds the first before, the second needs two files,
# the third a wrong `--block`, the others a `--plan` for a block that is compiled.
ELSEWHERE = {
    of_resolve.NoLabel,
    of_resolve.NotInFile,
    of_calls.NoBlock,
    of_sharding.PlanOfNothing,
    of_sharding.NoMeshSize,
    of_sharding.UnknownRounds,
    of_sharding.StageOfCall,
    of_sharding.StatisticOfStages,
    of_sharding.ManyStages,
}


def mistakes(path: Path) -> tuple[Diagnostic, ...]:
    return check_choices(read_project(path))


def kinds() -> set[type[Problem]]:
    return {
        kind
        for module in MODULES
        for kind in vars(module).values()
        if isinstance(kind, type)
        if issubclass(kind, Problem) and kind.__module__ == module.__name__
    }


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_told_as_in_the_golden(path: Path, golden: Callable[[Path, str], None]) -> None:
    told = mistakes(path)
    assert told
    text = render(told, color=False).replace(str(path), path.name)
    golden(path.with_suffix(".err"), f"{text}\n")


def test_no_golden_without_a_case() -> None:
    assert [path.stem for path in sorted(FOLDER.glob("*.err"))] == [case.stem for case in CASES]


def test_every_kind_of_mistake_has_a_golden() -> None:
    told = {mistake.code for path in CASES for mistake in mistakes(path)}
    assert {kind.__name__ for kind in kinds() - ELSEWHERE if kind.code not in told} == set()
