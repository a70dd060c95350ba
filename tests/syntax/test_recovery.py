"""Parsing goes on after an error: every error is reported, each once, and none is invented."""

from __future__ import annotations

import pytest
from program_files import PROGRAMS
from syntax.parsed import mistakes

from xg.diagnostics.diagnostic import Source
from xg.syntax.parse import parse_partly


def test_one_mistake_in_each_statement() -> None:
    text = """dim B S
op f(x) = x +
block F(X [B, S) -> Y [B] {
    param W: [D]
    X -> LN
    X -> -> : Z
    X -> S : Y
}
plan P of F { W [B] ] }
example of F {
    given X = [1 2]
    expect = 3
}
"""
    found = mistakes(text)
    assert [line for _, line, _ in found] == [1, 2, 3, 4, 5, 6, 9, 11, 12]


def test_a_broken_head_does_not_hide_the_body() -> None:
    assert mistakes("block F X [B] -> Y {\n  X -> S : Y\n  X -> S\n}\ndim B S") == [
        ("XG0110", 1, 9),
        ("XG0130", 3, 8),
        ("XG0115", 5, 5),
    ]


def test_an_open_bracket_costs_one_statement() -> None:
    found = mistakes("block F(X [B]) -> Y [B] {\n  X -> LN(γ\n  X -> S : Q\n  Q -> S\n}")
    assert [(code, line) for code, line, _ in found] == [("XG0111", 2), ("XG0130", 4)]


def test_an_open_brace_ends_where_the_next_declaration_begins() -> None:
    found = mistakes("block F(X [B]) -> Y [B] {\n  X -> S : Y\nop f(x) = x\ndim B S")
    assert [(code, line) for code, line, _ in found] == [("XG0114", 1), ("XG0115", 4)]


@pytest.mark.parametrize("behind", ["", "\nplan P of F {\n    X [B]\n}\n"])
def test_a_block_without_an_end_is_there_with_its_whole_statements(behind: str) -> None:
    text = f"block F(X [B]) -> Y [B] {{\n    param W [B, B]\n    X -> •<={behind}"
    module, found = parse_partly(Source("f.xg", text))
    assert module
    assert [(len(block.params), len(block.chains)) for block in module.blocks] == [(1, 0)]
    assert len(module.plan_decls) == (1 if behind else 0)
    assert [mistake.code for mistake in found] == ["XG0114"]


def test_a_chain_over_several_lines_is_given_up_as_one() -> None:
    text = "block F(X [B]) -> Y [B] {\n  X -> , : Z\n    -> S : A\n    -> S : B\n  X -> S\n}"
    assert [line for _, line, _ in mistakes(text)] == [2, 5]


def test_many_missing_commas_of_a_line_are_one_mistake() -> None:
    text = "block F(X [B]) -> Y [B] {\n  X -> R[b s (h d) -> b h s d] : Y\n}"
    assert mistakes(text) == [("XG0115", 2, 10)]


def test_the_end_may_come_anywhere() -> None:
    text = PROGRAMS[1].read_text(encoding="utf-8")
    for end in range(0, len(text), 7):
        cut = text[:end]
        assert len(mistakes(cut)) <= 3, cut[-40:]


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.stem)
def test_a_word_too_many_is_one_mistake(path: object) -> None:
    from pathlib import Path

    assert isinstance(path, Path)
    lines = path.read_text(encoding="utf-8").split("\n")
    for number in range(0, len(lines), 3):
        if lines[number].strip().startswith("#") or not lines[number].strip():
            continue
        changed = [*lines[:number], lines[number] + " § ) (", *lines[number + 1 :]]
        found = mistakes("\n".join(changed))
        assert found
        assert found[0][1] <= number + 1 <= found[-1][1] + 1
        assert len(found) <= 4, (lines[number], found)
