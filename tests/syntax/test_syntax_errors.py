"""Every syntax error is reported as its golden file shows."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from xg.diagnostics import limits
from xg.diagnostics.diagnostic import DiagnosticError, Problem, Source
from xg.syntax import errors
from xg.syntax.parse import parse

FOLDER = Path(__file__).parent / "errors"
CASES = sorted(FOLDER.glob("*.xg"))

# Files that git or an editor would not keep as they are: their tests make them.
ELSEWHERE = {errors.NotText, errors.ForbiddenCharacter, limits.SourceBytes}
KINDS: list[type[Problem]] = [
    kind
    for kind in vars(errors).values()
    if isinstance(kind, type) and issubclass(kind, Problem) and "code" in vars(kind)
]
OF_SYNTAX = {limits.Nesting, limits.LabelLength, limits.NumberDigits, limits.Rank}


def mistakes(path: Path) -> DiagnosticError:
    with pytest.raises(DiagnosticError) as caught:
        parse(Source.from_bytes(path.name, path.read_bytes()))
    return caught.value


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_told_as_in_the_golden(path: Path, golden: Callable[[Path, str], None]) -> None:
    golden(path.with_suffix(".err"), f"{mistakes(path)}\n")


def test_no_golden_without_a_case() -> None:
    assert [path.stem for path in sorted(FOLDER.glob("*.err"))] == [case.stem for case in CASES]


def test_every_kind_of_mistake_has_a_golden() -> None:
    told = {mistake.code for path in CASES for mistake in mistakes(path).diagnostics}
    kinds = {*KINDS} | OF_SYNTAX
    assert {kind.__name__ for kind in kinds - ELSEWHERE if kind.code not in told} == set()


def test_codes_are_unique() -> None:
    kinds = [*KINDS, *limits.Limit.__subclasses__()]
    assert len({kind.code for kind in kinds}) == len(kinds)
