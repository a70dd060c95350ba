"""Offsets in a source map to the right lines and columns."""

from __future__ import annotations

import pytest

from xg.diagnostics.diagnostic import Source, Span


@pytest.mark.parametrize("text", ["", "a", "a\n", "\n", "a\nbc\n\nd", "é\nγ"])
def test_every_offset_has_its_line_and_column(text: str) -> None:
    source = Source("a.xg", text)
    line, column = 1, 1
    for offset in range(len(text) + 1):
        assert (source.line(offset), source.column(offset)) == (line, column)
        at_line_end = text[offset : offset + 1] == "\n"
        line, column = (line + 1, 1) if at_line_end else (line, column + 1)


def test_the_text_of_a_line() -> None:
    source = Source("a.xg", "ab\n\ncd")
    assert [source.line_text(line) for line in (1, 2, 3)] == ["ab", "", "cd"]


def test_from_bytes() -> None:
    assert Source.from_bytes("a.xg", "γ\r\nb\r".encode()).text == "γ\nb\r"
    assert Source.from_bytes("a.xg", b"\xff").text == "\udcff"


def test_a_span() -> None:
    span = Span(Source("a.xg", "ab\ncd"), 3, 5)
    assert (span.text, span.line, span.column) == ("cd", 2, 1)


def test_spans_of_two_sources_differ() -> None:
    first, second = Source("a.xg", "ab"), Source("a.xg", "ab")
    assert Span(first, 0, 1) == Span(first, 0, 1)
    assert Span(first, 0, 1) != Span(second, 0, 1)
