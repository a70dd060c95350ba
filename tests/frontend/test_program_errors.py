"""Every error in names and shapes is reported as its golden file shows."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules

import pytest

from xg import frontend, sharding
from xg.diagnostics.diagnostic import Diagnostic, DiagnosticError, Problem, render
from xg.frontend import errors as of_files
from xg.frontend.choices import check_choices
from xg.frontend.project import parse_project, read_project
from xg.passes import infer, resolve, shard
from xg.passes.resolve import errors as of_calls
from xg.passes.resolve import errors as of_resolve
from xg.sharding import errors as of_sharding

FOLDER = Path(__file__).parent / "errors"
CASES = sorted(FOLDER.glob("*.xg"))

# Each stage's kinds of errors that a file shows; `define` has cases in tests/passes.
STAGES = (frontend, resolve, infer, shard, sharding)
MODULES = [
    import_module(f"{stage.__name__}.{info.name}")
    for stage in STAGES
    for info in iter_modules(stage.__path__)
    if info.name.endswith("errors")
]

# No file of its own shows these: the syntax finds the first before, the second needs two files,
# the third a wrong `--block`, the next six a `--plan` for a block that is compiled. The last five
# are about reading files (tests/frontend/project).
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
    of_files.Unreadable,
    of_files.NothingClaimed,
    of_files.UnfitArray,
    of_files.UseUnreadable,
    of_files.UseOutside,
    of_files.UseCycle,
    of_files.NotInLibrary,
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


DIVIDED_BY_A_SUM = "dim B, N = 3, M = N+1\n"
AS_A_SIZE = {
    "input": "block F(x [B/M]) -> y [B/M] {\n    x -> tanh : y\n}\n",
    "parameter": "block F(x [B]) -> y [B] {\n    param w [B/M]\n"
    "    x -> tanh : y\n    w -> tanh : z\n}\n",
    "label": "block F(x [B]) -> y [B] {\n    x -> tanh : h [B/M]\n    h -> tanh : y\n}\n",
    "dim": "dim K = B/M\nblock F(x [K]) -> y [K] {\n    x -> tanh : y\n}\n",
    "dim of a block": "block F(x [B]) -> y [B] {\n    dim K = B/M\n    x -> tanh : y\n}\n",
    "call": "dim P\nblock G(x [B/P]) -> y [B/P] {\n    x -> tanh : y\n}\n"
    "block F(x [B]) -> y [B] {\n    x -> G(P=M) : y\n}\n",
}


@pytest.mark.parametrize("place", AS_A_SIZE)
def test_a_size_that_is_divided_by_a_sum_is_refused_where_it_is(place: str) -> None:
    """M divides as any dim does, until it is known what it is."""
    text = DIVIDED_BY_A_SUM + AS_A_SIZE[place]
    (found,) = check_choices(parse_project(text.encode()))
    assert found.message == "cannot divide by N + 1: only products divide"
    assert found.span
    product = check_choices(parse_project(text.replace("N+1", "2*N").encode()))
    assert not [each for each in product if "divide" in each.message]


def test_a_plan_that_divides_by_a_sum_does_not_fit() -> None:
    plan = "mesh N_T = 2\nblock F(x [B]) -> y [B] {\n    x -> tanh : y\n}\n"
    plan += "plan P of F {\n    x [B/M]\n}\n"
    (found,) = check_choices(parse_project((DIVIDED_BY_A_SUM + plan).encode()))
    assert "here [B/M]" in str(DiagnosticError((found,)))


def test_a_call_may_not_divide_by_zero() -> None:
    text = DIVIDED_BY_A_SUM + AS_A_SIZE["call"].replace("P=M", "P=B-B")
    (found,) = check_choices(parse_project(text.encode()))
    assert (found.message, found.help) == ("cannot divide by 0", ())


@pytest.mark.parametrize("size", ["0", "-1"])
def test_a_matrix_without_rows_is_refused(size: str) -> None:
    text = "dim B, D\nblock F(x [B, D]) -> y [B, D] {\n    param W [SIZE, D]\n"
    text += "    x -> tanh : y\n    W -> tanh : z\n}\n"
    found = check_choices(parse_project(text.replace("SIZE", size).encode()))
    assert f"this axis has {size} positions; every axis needs at least 1" in [
        f.message for f in found
    ]
