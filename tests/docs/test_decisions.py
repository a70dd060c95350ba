"""Decision records are numbered by subject, short and listed; `./dev docs` writes the list."""

import re
from collections import Counter
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

Each record says what was decided, why, and what was rejected; its title is the decision. A record
is edited when the decision changes, and `git log` keeps the older text. The first three digits of a
number are its subject. Numbers below 0200 are those of earlier, smaller records; the last line of a
record lists those it replaced. `./dev docs` writes this list.
"""

SUBJECTS: Final = {
    "020": "The language",
    "021": "Operators and sizes",
    "022": "Passes",
    "023": "Code",
    "024": "Models from elsewhere",
    "025": "Plans",
    "026": "Training and ranks",
    "027": "Proofs",
    "028": "Figures",
    "029": "Pages and editors",
    "030": "Commands and the project",
    "031": "Further decisions",
    "032": "Devices and uneven parts",
    "033": "Steps, figures and calls",
    "034": "Communication and tests",
}

MERGED = re.compile(r"^Merged from (\d{4}(?:, \d{4})*)\.$", re.MULTILINE)
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
    assert len(text.splitlines()) <= 45
    assert len(text) <= 4500


def test_no_number_is_given_twice() -> None:
    texts = [record.read_text(encoding="utf-8") for record in RECORDS]
    numbers = Counter(record.name[:4] for record in RECORDS)
    merged = Counter(n for text in texts for line in MERGED.findall(text) for n in line.split(", "))
    assert [number for number, count in (numbers + merged).items() if count > 1] == []


def test_files_that_name_a_record_name_one_that_exists() -> None:
    records = {record.name for record in RECORDS}
    missing: list[str] = []
    for folder in ("bench", "compiler", "docs", "examples", "grammar", "runtime", "website"):
        for pattern in ("*.md", "*.py", "*.toml"):
            for file in sorted((ROOT / folder).rglob(pattern)):
                names = set(NAMED.findall(file.read_text(encoding="utf-8"))) - records
                missing += [f"{file.relative_to(ROOT)}: {name}" for name in sorted(names)]
    assert missing == []
