"""Text to tokens of Lark; comments are kept for the formatter.

Lark's own lexer stops at a text that is no token; this one reads the intended token and continues.
"""

from __future__ import annotations

import re
from functools import cache
from typing import NamedTuple

import lark

from xg.diagnostics.diagnostic import MISTAKES_AT_MOST, Problem
from xg.diagnostics.source import Source, Span
from xg.syntax.comparisons import turned_round
from xg.syntax.errors import ForeignLetters, ForeignSpelling, UnclosedText, UnknownCharacter
from xg.syntax.foreign import COMMENT, FOREIGN, QUOTED, REPHRASED, TURNED, Meant, divided
from xg_grammar import literals, patterns


class Token(lark.Token):
    """A terminal of the grammar, its text and the offsets where it begins and ends."""

    __slots__ = ("end", "start")
    start: int
    end: int

    def __new__(cls, kind: str, text: str, start: int) -> Token:
        """Make a token that begins at an offset; Lark's own way to make one takes twice as long."""
        token = str.__new__(cls, text)
        token.type, token.value, token.start, token.end = kind, text, start, start + len(text)
        return token

    def __bool__(self) -> bool:
        return True  # also one without a text, which a repair put in


class Tokens(NamedTuple):
    """All of a text but its blanks; the tokens are closed by `$END`."""

    tokens: list[Token]
    comments: list[Token]
    problems: list[Problem]


def tokenize(source: Source) -> Tokens:
    """The tokens of a text.

    A spelling known from elsewhere becomes the intended token, text without a meaning is left out;
    both are problems.
    """
    result = Tokens([], [], [])
    position = _scan(source, 0, result)
    while position is not None:
        position = _scan(source, position, result)
    result.tokens.append(Token("$END", "", len(source.text)))
    return result


def _scan(source: Source, begin: int, result: Tokens) -> int | None:
    """Read the tokens from an offset on, to the end or to behind a `//` that divides."""
    tokens = result.tokens
    has_pattern, kinds = patterns(), literals()
    for match in _scanner().finditer(source.text, begin):
        kind = match.lastgroup or ""
        text, start = match[0], match.start()
        if kind == "SPACE":
            continue
        if kind in has_pattern:
            if kind == "NAME":
                kind = kinds.get(text, kind)
        elif kind == "sign" and text in kinds:
            kind = kinds[text]
        elif text.startswith("//") and (meant := _division(source, start, result)):
            result.problems.append(
                ForeignSpelling(Span(source, start, start + 2), meant.said, meant.kind)
            )
            tokens.append(Token(meant.kind, "//", start))
            return start + 2
        else:
            problem, kind = _repaired(Span(source, *match.span()), kind)
            result.problems.append(problem)
            if kind == "NAME" and tokens and tokens[-1].type == "NAME" and tokens[-1].end == start:
                start = tokens[-1].start
                text = tokens.pop() + text
        if kind == "COMMENT":
            result.comments.append(Token(kind, text, start))
        elif kind:
            tokens.append(Token(kind, text, start))
    return None


def _division(source: Source, start: int, result: Tokens) -> Meant | None:
    """A `//` that divides, while a problem more is reported: each is looked for in all the text."""
    return divided(source.text, start) if len(result.problems) < MISTAKES_AT_MOST else None


@cache
def _scanner() -> re.Pattern[str]:
    """One expression for every token, its group named after the kind."""
    signs = [text for text in literals() if not text.isalpha()]
    groups = {
        **patterns(),
        "unclosed": r'"[^"\n{]*',
        "quoted": r"(?<!\w)'[^'\n]*'|“[^”\n]*”|//[^\n]*",
        "sign": _any_of([*signs, *FOREIGN]),
        "letters": r"\w+",
        "unknown": r".",
    }
    return re.compile("|".join(f"(?P<{name}>{pattern})" for name, pattern in groups.items()))


def _any_of(texts: list[str]) -> str:
    """An expression for the longest of some texts."""
    return "|".join(re.escape(text) for text in sorted(texts, key=len, reverse=True))


def _repaired(found: Span, group: str) -> tuple[Problem, str]:
    """The problem of a text that is no token, and the kind of the token to continue with, or ""."""
    if group == "unclosed":
        return UnclosedText(found), "STRING"
    if group == "letters":
        return ForeignLetters(found), "NAME"
    if group == "unknown":
        return UnknownCharacter(found), ""
    if group == "quoted":
        meant = COMMENT if found.text.startswith("/") else QUOTED
    else:
        meant = FOREIGN[found.text]
    sign, said = "" if found.text in REPHRASED else meant.kind, meant.said
    if found.text in TURNED:
        said = turned_round(found.source.text, found.start, found.end)
    return ForeignSpelling(found, said, sign), meant.kind
