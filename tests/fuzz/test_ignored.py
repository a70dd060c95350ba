"""Every word of a program has an effect or is reported: tried at every place of small programs."""

from __future__ import annotations

from random import Random

import pytest
from fuzz.ignored import PROGRAMS, Change, changes, ignored, meaning
from fuzz.operator_programs import operator_programs
from tier import THOROUGH

EACH = 220 if THOROUGH else 110  # changes of each program; `python -m fuzz.ignored` tries all
AROUND = 12 if THOROUGH else 6  # changes around each sample of an operator


@pytest.mark.parametrize("name", PROGRAMS)
def test_nothing_in_a_program_is_ignored(name: str) -> None:
    text = PROGRAMS[name]
    assert ignored(text, Random(name).sample(changes(text), EACH)) == []


def test_nothing_at_an_operator_is_ignored() -> None:
    """Each sample of each operator, with some changes around it."""
    random = Random(0)
    for text, use in operator_programs():
        assert ignored(text, random.sample(changes(text, use), AROUND)) == []


@pytest.mark.parametrize(
    ("text", "more"),
    [
        (": Y\n", ": Y # nothing more\n"),
        ("x ->", "x  ->"),
        ("-> GELU", "-> GELU()"),
    ],
)
def test_what_says_nothing_is_found(text: str, more: str) -> None:
    """The control: a comment, a blank and empty parentheses change no meaning."""
    program = "dim B\nblock F(x [B]) -> Y [B] {\n    x -> GELU : Y\n}\n"
    assert meaning(program)
    assert ignored(program, [Change(program.replace(text, more), more)]) == [more]
