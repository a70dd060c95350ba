"""Recover after an error to find later errors, and list the words that fit at a cursor.

The list of tokens is repaired where the author's intent is clear. Else the statement is given up
and reading continues behind it; when the head of a block is given up, its body is still read.

Imported only when a file has an error.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import takewhile
from typing import NamedTuple

from xg.diagnostics.diagnostic import MISTAKES_AT_MOST, DiagnosticError, Problem, Source
from xg.syntax.build import ModuleBuilder
from xg.syntax.error_token import Repair, Stop
from xg.syntax.known_errors import find
from xg.syntax.reader import Reader
from xg.syntax.tokens import (
    CLOSES,
    GOES_ON_AFTER,
    GOES_ON_BEFORE,
    ITEM_WORDS,
    OPENS,
    STATEMENT_WORDS,
    StatementTokens,
    Token,
    tokenize,
)
from xg_grammar import literals

_BODIES = ("statement", "placement", "claim")
_STATEMENTS = (*_BODIES, "item")
_HEADS = {  # the shortest head of each declaration that has a body
    "BLOCK": "BLOCK NAME LPAR RPAR ARROW NAME LSQB RSQB",
    "PLAN": "PLAN NAME OF NAME",
    "EXAMPLE": "EXAMPLE OF NAME",
}


def recover(
    source: Source, reader: Reader, tokens: list[Token], stream: StatementTokens
) -> tuple[Problem | None, StatementTokens]:
    """The error at the last token of `stream`, which did not fit, and the tokens to continue with.

    The error is None if it was reported before. Changes the reader's stack and, from there on, the
    list of tokens.
    """
    index = stream.position
    stop = _stop(source, reader, tokens, index, stream.open)
    finding = find(stop)
    if _can_repair(reader, stop, finding):
        repair = [Token(kind, "", stop.token.start) for kind in finding.insert]
        tokens[index : index + finding.drop] = repair
        last = stop.previous.type if stop.previous else ""
        return finding.problem, StatementTokens(source, tokens, index, stream.open, last)
    index = _give_up(reader, tokens, stop, index, len(stream.open))
    return finding.problem, StatementTokens(source, tokens, index)


def _stop(
    source: Source, reader: Reader, tokens: list[Token], index: int, open: list[Token]
) -> Stop:
    before = range(index - 1, -1, -1)
    line = list(_line_before(tokens, index))
    return Stop(
        source,
        reader,
        tokens[index],
        previous=next((tokens[i] for i in before if tokens[i].type != "_NL"), None),
        following=tokens[index + 1] if index + 1 < len(tokens) else None,
        open=tuple(open),
        brace=next((tokens[i] for i in before if tokens[i].type == "LBRACE"), None),
        statement=line[-1] if line else None,
        begins_line=not line,
        repaired=any(token.start == token.end and token.type == "COMMA" for token in line),
        expected=reader.expected(),
    )


def _line_before(tokens: list[Token], index: int) -> Iterator[Token]:
    """The tokens before an index on its line, the last one first."""
    return takewhile(
        lambda token: token.type != "_NL", (tokens[i] for i in range(index - 1, -1, -1))
    )


def _can_repair(reader: Reader, stop: Stop, finding: Repair) -> bool:
    if not finding.drop:
        return bool(finding.insert) and reader.fits([*finding.insert, stop.token.type])
    return reader.fits(finding.insert) and stop.token.type != "$END"


def _give_up(reader: Reader, tokens: list[Token], stop: Stop, index: int, depth: int) -> int:
    """Give up the statement around `index`; returns where to continue."""
    if stop.token.type == "$END" or (stop.token.type in ITEM_WORDS and stop.begins_line):
        if any(map(reader.awaits, _BODIES)):
            return _close(reader, tokens, stop, index)
        reader.unwind(["item"])
        reader.assume("item")
        return index - (stop.token.type != "$END")
    begun = reader.unwind(_STATEMENTS)
    head = _head(tokens, index, begun) if "item" in reader.choices else None
    brace = _end_of_head(tokens, index) if head else None
    if head and brace:
        at = tokens[brace].start
        tokens[index:brace] = [Token(kind, "", at) for kind in _HEADS[head].split()]
        return index
    reader.assume(next(symbol for symbol in _STATEMENTS if symbol in reader.choices))
    if stop.begins_line and depth and stop.token.type not in GOES_ON_BEFORE:
        return index - 1
    while not _goes_on_at(reader, tokens, index, depth):
        depth += (tokens[index].type in OPENS) - (tokens[index].type in CLOSES)
        index += 1
    return index


def _close(reader: Reader, tokens: list[Token], stop: Stop, index: int) -> int:
    """Give up the last statement of an unclosed body, and close the body before `index`."""
    reader.unwind(_BODIES)
    reader.assume(next(symbol for symbol in _BODIES if symbol in reader.choices))
    kinds = ["RBRACE"] if stop.token.type == "$END" else ["RBRACE", "_NL"]
    tokens[index:index] = [Token(kind, "", stop.token.start) for kind in kinds]
    return index


def _head(tokens: list[Token], index: int, begun: int | None) -> str | None:
    """The kind of the declaration with a body that began at the offset `begun`."""
    if begun is None:
        return None
    kinds = (token.type for token in tokens[index::-1] if token.start == begun)
    return next((kind for kind in kinds if kind in _HEADS), None)


def _end_of_head(tokens: list[Token], index: int) -> int | None:
    """Where the brace is that ends a head, if it comes before the next declaration or statement."""
    for position in range(index, len(tokens)):
        kind = tokens[position].type
        if kind == "LBRACE":
            return position
        if kind in ITEM_WORDS | STATEMENT_WORDS | {"RBRACE", "$END"}:
            return None
    return None


def _goes_on_at(reader: Reader, tokens: list[Token], index: int, depth: int) -> bool:
    """Return whether a statement can begin after this token, or a body or the file end at it."""
    kind = tokens[index].type
    if kind == "$END":
        return True
    if kind == "RBRACE":
        return reader.fits([kind])
    if kind != "_NL" or tokens[index + 1].type == "_NL" or not reader.fits([kind]):
        return False
    behind = [token.type for token in tokens[index + 1 : index + 3]]
    if behind[0] in ITEM_WORDS | STATEMENT_WORDS:
        return True
    is_chain = behind == ["NAME", "ARROW"]
    in_list = depth > 0 or (index > 0 and tokens[index - 1].type in GOES_ON_AFTER)
    return is_chain or not (in_list or behind[0] in GOES_ON_BEFORE)


# The grammar's expectation at a place of a text that is being typed.


class Awaited(NamedTuple):
    """The expectation of the grammar at a place.

    `symbols` are its symbols that a name there could begin, `words` its own words that fit, `fits`
    says whether a name does, and `before` are the tokens in front of the place.
    """

    symbols: frozenset[str]
    words: tuple[str, ...]
    fits: bool
    before: list[Token]


def expectation_at(source: Source, offset: int) -> Awaited | None:
    """The expectation at an offset, as if the text ended there; None in a comment or a text."""
    until = Source(source.name, source.text[:offset])
    tokens, comments, _ = tokenize(until)
    behind = [*comments, *(token for token in tokens if token.type == "STRING")]
    if any(token.end == offset and not _has_closing_quote(token) for token in behind):
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


def _has_closing_quote(token: Token) -> bool:
    return token.type == "STRING" and len(token) > 1 and token.endswith('"')
