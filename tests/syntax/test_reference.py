"""The examples of the language reference are what it says they are."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from syntax.parsed import mistakes

from xg.diagnostics.diagnostic import Source
from xg.frontend.choices import check_choices
from xg.frontend.project import read_project
from xg.passes.resolve.define.signature import FUNCTIONS
from xg.syntax.format import format
from xg_grammar import literals

REFERENCE = (Path(__file__).parents[2] / "grammar" / "README.md").read_text(encoding="utf-8")
OF_MEANING = "XG02"  # codes before are of the text alone
FENCES = [
    pytest.param(found[2], found[1] or "", id=f"offset-{found.start()}")
    for found in re.finditer(r"^```xg(?: error=(\w+))?\n(.*?)^```$", REFERENCE, re.M | re.S)
]


def test_there_are_examples_of_both_kinds() -> None:
    wrong = sum(bool(fence.values[1]) for fence in FENCES)
    assert len(FENCES) - wrong >= 10
    assert wrong >= 2
    assert REFERENCE.count("\n```xg") == len(FENCES)


@pytest.mark.parametrize(("text", "code"), FENCES)
def test_examples(text: str, code: str, tmp_path: Path) -> None:
    if code < OF_MEANING:
        assert {found for found, _, _ in mistakes(text)} == ({code} if code else set())
        return
    (tmp_path / "a.xg").write_text(text, encoding="utf-8")
    assert {each.code for each in check_choices(read_project(tmp_path / "a.xg"))} == {code}


@pytest.mark.parametrize(("text", "code"), FENCES)
def test_examples_are_laid_out(text: str, code: str) -> None:
    if not code:
        assert format(Source("a.xg", text)) == text


def test_every_function_of_an_expression_is_listed() -> None:
    _, _, section = REFERENCE.partition("\n| functions | give |\n")
    table, _, _ = section.partition("\n\n")
    listed = re.findall(r"`(\w+)", "\n".join(row.split("|")[1] for row in table.splitlines()[1:]))
    assert set(listed) == FUNCTIONS


def test_every_word_of_the_language_is_listed() -> None:
    listed = re.search(r"These words cannot be names: `(.*?)`", REFERENCE, re.S)
    assert listed
    words = {word for word in literals() if word.isalpha()}
    assert set(listed[1].split()) == words
