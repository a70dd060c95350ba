"""Each row of the table of hints recognizes its own example, and says what to write."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from xg.diagnostics.diagnostic import Source
from xg.syntax import hints
from xg.syntax.error_token import Repair, Stop
from xg.syntax.hints import HINTS, Hint
from xg.syntax.parse import SIGN, parse_partly

GOLDEN = Path(__file__).parent / "hints.txt"
BLOCK = """\
dim B, D = 4

block F(x [B, D], z [B, D]) -> y [B, D] {{
    param W [D, D]
    {}
    x -> •<=W -> ⊕<-z : y
}}
"""
OUTSIDE = ("op ", "block ", "dim ", "option ", "plan ", "f(")


def _file(example: str) -> str:
    return f"{example}\n" if example.startswith(OUTSIDE) else BLOCK.format(example)


@pytest.mark.parametrize("row", HINTS, ids=lambda row: row.example)
def test_a_row_recognizes_its_example(row: Hint, monkeypatch: pytest.MonkeyPatch) -> None:
    rows: list[Hint] = []

    def noted(stop: Stop) -> tuple[Hint, str] | None:
        found = match(stop)
        rows.extend([found[0]] if found else [])
        return found

    match = hints.match
    monkeypatch.setattr(hints, "match", noted)
    found = parse_partly(Source(f"{row.example}.xg", _file(row.example))).diagnostics
    assert rows == [row]
    assert [each.message for each in found if each.code != SIGN] == [row.reason]


def test_the_table_says_what_to_write(golden: Callable[[Path, str], None]) -> None:
    parts = list[str]()
    for row in HINTS:
        found = parse_partly(Source("hint.xg", _file(row.example))).diagnostics
        helps = [help for each in found for help in each.help]
        parts.append("\n".join([row.example, f"    {row.reason}", *(f"    {h}" for h in helps)]))
    golden(GOLDEN, "\n\n".join(parts) + "\n")


def test_without_the_table_a_habit_is_refused_by_the_general_message(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def nothing(_: Stop) -> Repair | None:
        return None

    monkeypatch.setattr(hints, "match", nothing)
    for row in HINTS:
        found = parse_partly(Source(f"plain {row.example}.xg", _file(row.example))).diagnostics
        assert found, row.example
        assert all(each.line and each.message for each in found), row.example
