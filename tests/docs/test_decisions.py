"""Decision records are numbered, short and listed; `./dev docs` writes the list."""

import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "docs" / "adr"
INDEX = FOLDER / "README.md"
RECORDS = sorted(FOLDER.glob("[0-9]*.md"))

HEAD = """\
# Decisions

What was decided, why, and what was rejected, in about ten lines. A decision that no longer holds is
not rewritten; a new one says that it replaces it. Numbers are given in ranges by subject, so they
have gaps. `./dev docs` writes this list.
"""


def _title(record: Path) -> str:
    first = record.read_text(encoding="utf-8").splitlines()[0]
    return first.removeprefix(f"# {record.name[:4]}. ")


def test_the_index_is_complete(golden: Callable[[Path, str], None]) -> None:
    rows = [f"- [{record.name[:4]}]({record.name}) {_title(record)}" for record in RECORDS]
    golden(INDEX, "\n".join([HEAD, *rows, ""]))


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: record.stem)
def test_a_record_is_short_and_says_why(record: Path) -> None:
    text = record.read_text(encoding="utf-8")
    assert re.fullmatch(r"\d{4}-[a-z0-9-]+\.md", record.name)
    assert text.startswith(f"# {record.name[:4]}. ")
    assert "**Decision.**" in text
    assert "**Why.**" in text
    assert 5 <= len(text.splitlines()) <= 14
    assert len(text) <= 1600


def test_no_number_is_given_twice() -> None:
    counts = Counter(record.name[:4] for record in RECORDS)
    assert [number for number, count in counts.items() if count > 1] == []
