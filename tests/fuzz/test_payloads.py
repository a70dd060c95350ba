"""Texts that try to get out of an output stay texts, in every output."""

from __future__ import annotations

import pytest
from fuzz import payloads
from fuzz.payloads import COMMANDS, STRUCTURES, payload_failure
from tier import THOROUGH

TEXTS = 57 if THOROUGH else 6  # for each output, each with eight payloads


@pytest.mark.parametrize("kind", COMMANDS)
def test_nothing_gets_out(kind: str) -> None:
    first = list(COMMANDS).index(kind)
    seeds = range(first, TEXTS * len(COMMANDS), len(COMMANDS))
    failures = [payload_failure(seed) for seed in seeds]
    assert not [f"{message}\n{text}" for text, message in failures if message]


@pytest.mark.parametrize(
    ("kind", "safe", "escaped"),
    [
        ("svg", "<svg><text>t</text></svg>", "<svg><text>t</text><script/></svg>"),
        ("tex", "\\node {t};", "\\node {t};\n\\node {t};"),
        ("html", "<p>t</p>", "<p onclick='x'>t</p>"),
        ("dot", 'digraph { a [label="t"] }', 'digraph { a [label="t" URL="x"] }'),
        ("dot", "digraph { a [label=<t>] }", "digraph { a [label=<t>] b [URL=<x>] }"),
        ("numpy", "x = 't'", "x = 't'; y = 1"),
        ("markdown", "t", "[t](x)"),
        ("json", '{"a": "t"}', '{"a": "t", "b": 1}'),
        ("fmt", 'block A "t"', 'block A "t" b'),
    ],
)
def test_what_gets_out_is_seen(kind: str, safe: str, escaped: str) -> None:
    """The control: each structure differs where something was added."""
    assert STRUCTURES[kind](safe) != STRUCTURES[kind](escaped)


def test_an_escape_sequence_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    def printed(kind: str, text: str) -> str:
        return f"{kind} {len(text)} \x1b[31m"

    monkeypatch.setattr(payloads, "output", printed)
    assert "control characters" in payload_failure(0, "terminal")[1]
