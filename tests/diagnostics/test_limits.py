"""Every limit admits its maximum and reports anything beyond it."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from syntax.parsed import mistakes

from xg.diagnostics import limits
from xg.diagnostics.diagnostic import DiagnosticError
from xg.diagnostics.limits import Limit

LIMITS = Limit.__subclasses__()


@pytest.mark.parametrize("limit", LIMITS, ids=lambda limit: limit.__name__)
def test_at_the_maximum_and_beyond(limit: type[Limit]) -> None:
    limit.check(limit.maximum, None)
    with pytest.raises(DiagnosticError) as caught:
        limit.check(limit.maximum + 1, None)
    (told,) = caught.value.diagnostics
    assert told.code == limit.code
    assert f"{limit.maximum:,}" in told.message
    assert f"{limit.maximum + 1:,}" in told.message


def file_of_bytes(count: int) -> str:
    return "#" * count


def name_of_length(count: int) -> str:
    return f"dim {'N' * count}"


def title_of_length(count: int) -> str:
    return f'plan P "{"t" * count}" = A × B'


def number_of_digits(count: int) -> str:
    return f"dim N = {'9' * count}"


def shape_of_rank(count: int) -> str:
    return f"op f(x [{', '.join('abcdefghijk'[:count])}]) = x"


@pytest.mark.parametrize(
    ("limit", "text"),
    [
        (limits.SourceBytes, file_of_bytes),
        (limits.LabelLength, name_of_length),
        (limits.LabelLength, title_of_length),
        (limits.NumberDigits, number_of_digits),
        (limits.Rank, shape_of_rank),
    ],
)
def test_in_a_file(limit: type[Limit], text: Callable[[int], str]) -> None:
    assert mistakes(text(limit.maximum)) == []
    assert [code for code, _, _ in mistakes(text(limit.maximum + 1))] == [limit.code]


def test_bytes_are_counted_not_characters() -> None:
    text = "#" + "γ" * (limits.SourceBytes.maximum // 2)
    assert [code for code, _, _ in mistakes(text)] == ["XG0001"]
