"""The grammar's expectation at a place of a text that is being typed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from xg.diagnostics.diagnostic import MISTAKES_AT_MOST, DiagnosticError
from xg.diagnostics.source import Source
from xg.syntax.build import ModuleBuilder
from xg.syntax.line_ends import StatementTokens
from xg.syntax.reader import Reader
from xg.syntax.recover import recover
from xg.syntax.tokens import Token, tokenize
from xg_grammar import literals


class Awaited(NamedTuple):
    """The expectation of the grammar at a place.

    `symbols` are its symbols that a name there could begin, `words` its own words that fit, `fits`
    says whether a name does, and `before` are the tokens in front of the place.
    """

    symbols: frozenset[str]
    words: tuple[str, ...]
    fits: bool
    before: list[Token]


def awaited(source: Source, offset: int) -> Awaited | None:
    """The expectation at an offset, as if the text ended there; None in a comment or a text."""
    until = Source(source.name, source.text[:offset])
    tokens, comments, _ = tokenize(until)
    behind = [*comments, *(token for token in tokens if token.type == "STRING")]
    if any(token.end == offset and not _closed(token) for token in behind):
        return None
    before = tokens[:-1]
    probe = Token("NAME", "", offset)  # ends the line before it, if that can end
    tokens.insert(-1, probe)
    reader = Reader(until, ModuleBuilder(until))
    stream = StatementTokens(until, tokens)
    try:
        for _ in range(MISTAKES_AT_MOST):
            if reader.feed(_until(probe, stream)) is None:
                break
            _, stream = recover(until, reader, tokens, stream)
    except DiagnosticError:  # too many brackets
        return None
    if stream.position >= len(tokens) or tokens[stream.position] is not probe:
        return None  # given up together with an error before it
    expected = reader.expected()
    words = tuple(word for word, kind in literals().items() if word.isalpha() and kind in expected)
    return Awaited(reader.beginnings(), words, "NAME" in expected, before)


def _until(probe: Token, stream: StatementTokens) -> Iterator[Token]:
    for token in stream:
        if token is probe:
            return
        yield token


def _closed(token: Token) -> bool:
    return token.type == "STRING" and len(token) > 1 and token.endswith('"')
