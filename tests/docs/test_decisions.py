"""Decision records are numbered by subject, short and listed; `./dev docs` writes the list."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docs" / "adr"
INDEX = FOLDER / "README.md"
RECORDS = sorted(FOLDER.glob("[0-9]*.md"))

HEAD = """\
# Decisions

If you change one of these, you break something that others rely on, so read the record first. Each
says what was decided, why, and what was rejected. Its title is the decision. When a decision
changes, edit its record; `git log` keeps the old text. Smaller reasons are in the docstring of the
module that they explain. `./dev docs` writes this list.
"""

SUBJECTS: Final = {
    "020": "The language",
    "021": "Operators and sizes",
    "022": "Passes",
    "023": "Code",
    "024": "Models from elsewhere",
    "025": "Plans",
    "026": "Ranks",
    "027": "Proofs",
    "028": "Figures",
    "030": "Commands and packages",
    "032": "Uneven sizes and loops on ranks",
}

NAMED = re.compile(r"\b0\d{3}-[a-z0-9]+(?:-[a-z0-9]+)+\.md\b")


def _title(record: Path) -> str:
    first = record.read_text(encoding="utf-8").splitlines()[0]
    return first.removeprefix(f"# {record.name[:4]}. ")


def test_the_index_lists_every_record_under_its_subject(
    golden: Callable[[Path, str], None],
) -> None:
    lines = [HEAD]
    for prefix, subject in SUBJECTS.items():
        records = [record for record in RECORDS if record.name.startswith(prefix)]
        assert records, subject
        rows = [f"- [{record.name[:4]}]({record.name}) {_title(record)}" for record in records]
        lines += [f"## {subject}", "", *rows, ""]
    assert {record.name[:3] for record in RECORDS} == set(SUBJECTS)
    golden(INDEX, "\n".join(lines))


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: record.stem)
def test_a_record_is_short_and_says_why(record: Path) -> None:
    text = record.read_text(encoding="utf-8")
    assert re.fullmatch(r"\d{4}-[a-z0-9-]+\.md", record.name)
    assert text.startswith(f"# {record.name[:4]}. ")
    assert "**Decision.**" in text
    assert "**Why.**" in text
    assert len(text.encode()) <= 2048


def test_records_are_few_and_have_a_number_each() -> None:
    assert len({record.name[:4] for record in RECORDS}) == len(RECORDS) <= 25


def test_files_that_name_a_record_name_one_that_exists() -> None:
    records = {record.name for record in RECORDS}
    missing: list[str] = []
    for folder in (
        "bench",
        "compiler",
        "docs",
        "examples",
        "grammar",
        "runtime",
        "tests",
        "website",
    ):
        for pattern in ("*.md", "*.py", "*.toml"):
            for file in sorted((ROOT / folder).rglob(pattern)):
                names = set(NAMED.findall(file.read_text(encoding="utf-8"))) - records
                missing += [f"{file.relative_to(ROOT)}: {name}" for name in sorted(names)]
    assert missing == []
