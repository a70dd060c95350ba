"""Text to tokens, as Lark's basic lexer makes them; comments are kept for the formatter."""

from __future__ import annotations

import re
from functools import cache
from typing import NamedTuple

from xg.diagnostics.diagnostic import Problem
from xg.diagnostics.source import Source, Span
from xg.syntax.foreign import COMMENT, FOREIGN, QUOTED
from xg_grammar import tables


class Token(NamedTuple):
    """A terminal of the grammar and the offsets where it begins and ends."""

    kind: str
    start: int
    end: int


class Tokens(NamedTuple):
    """What a text consists of, but for its blanks; the tokens are closed by `$END`."""

    tokens: list[Token]
    comments: list[Token]
    problems: list[Problem]


def tokenize(source: Source) -> Tokens:
    """The tokens of a text.

    A spelling known from elsewhere becomes the token that was meant, what has no meaning is left
    out; both are problems.
    """
    found = Tokens([], [], [])
    tokens = found.tokens
    patterns, literals = tables()["patterns"], tables()["literals"]
    for match in _scanner().finditer(source.text):
        kind = match.lastgroup or ""
        start, end = match.span()
        if kind == "SPACE":
            continue
        if kind in patterns:
            if kind == "NAME":
                kind = literals.get(match[0], kind)
        elif kind == "sign" and match[0] in literals:
            kind = literals[match[0]]
        else:
            problem, kind = _mistaken(Span(source, start, end), kind)
            found.problems.append(problem)
            if kind == "NAME" and tokens and tokens[-1].kind == "NAME" and tokens[-1].end == start:
                start = tokens.pop().start
        if kind == "COMMENT":
            found.comments.append(Token(kind, start, end))
        elif kind:
            tokens.append(Token(kind, start, end))
    tokens.append(Token("$END", len(source.text), len(source.text)))
    return found


@cache
def _scanner() -> re.Pattern[str]:
    """One expression for every token, its group named after the kind."""
    signs = [text for text in tables()["literals"] if not text.isalpha()]
    groups = {
        **tables()["patterns"],
        "unclosed": r'"[^"\n{]*',
        "quoted": r"'[^'\n]*'|“[^”\n]*”|//[^\n]*",
        "sign": _any_of([*signs, *FOREIGN]),
        "letters": r"\w+",
        "unknown": r".",
    }
    return re.compile("|".join(f"(?P<{name}>{pattern})" for name, pattern in groups.items()))


def _any_of(texts: list[str]) -> str:
    """An expression for the longest of some texts."""
    return "|".join(re.escape(text) for text in sorted(texts, key=len, reverse=True))


def _mistaken(found: Span, group: str) -> tuple[Problem, str]:
    """The problem with what is no token, and the kind of the token to go on with ("" for none)."""
    from xg.syntax.errors import ForeignLetters, ForeignSpelling, UnclosedText, UnknownCharacter

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
    return ForeignSpelling(found, meant.said), meant.kind
