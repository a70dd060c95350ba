"""Turn text into tokens of Lark, and find the line ends that end a statement.

Lark's own lexer stops at a text that is no token; this one reads the intended token and continues.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from itertools import islice
from typing import Final, NamedTuple

import lark

from xg.diagnostics.diagnostic import MISTAKES_AT_MOST, DiagnosticError, Problem, Source, Span
from xg.diagnostics.lazy_dataclass import replace
from xg.diagnostics.limits import Nesting, SourceBytes
from xg.syntax.errors import (
    ForbiddenCharacter,
    ForeignLetters,
    ForeignSpelling,
    NotText,
    UnclosedText,
    UnknownCharacter,
)
from xg.syntax.spelling import (
    COMMENT,
    FOREIGN,
    QUOTED,
    REPHRASED,
    SPELLED_OUT,
    TURNED,
    Meant,
    division_at,
)
from xg_grammar import literals, patterns

# The characters that a file may have: none that a reader cannot see.


# Unicode's control, format, surrogate and line-separator characters, and the fillers among its
# letters: they move the cursor, turn the text round or take no room. Tab and line feed are fine.
INVISIBLE = (
    "\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u034f\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2"
    "\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ud800-\udfff"
    "\ufeff\uffa0\ufff0-\ufffb\U000110bd\U000110cd\U00013430-\U0001345f\U0001bca0-\U0001bca3"
    "\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
_INVISIBLE_RUN = re.compile(f"[{INVISIBLE}]+")


def check_characters(source: Source) -> None:
    """Raise DiagnosticError for a file that is too long, not UTF-8, or has invisible characters."""
    size = len(source.text.encode("utf-8", "surrogateescape"))
    SourceBytes.check(size, Span(source, 0, 0))
    problems = list(islice(_problems(source), MISTAKES_AT_MOST))
    if problems:
        raise DiagnosticError.of(*problems)


def _problems(source: Source) -> Iterator[Problem]:
    for match in _INVISIBLE_RUN.finditer(source.text):
        span = Span(source, *match.span())
        if "\ud800" <= span.text[0] <= "\udfff":
            yield NotText(span)
            return  # of another encoding every character is wrong
        yield ForbiddenCharacter(span)


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
    """Read the tokens from an offset on, to the end or to just after a `//` that divides."""
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
            problem, kind = _repair_text(Span(source, *match.span()), kind)
            _add_problem(result.problems, problem)
            if kind == "NAME" and tokens and tokens[-1].type == "NAME" and tokens[-1].end == start:
                start = tokens[-1].start
                text = tokens.pop() + text
        if kind == "COMMENT":
            result.comments.append(Token(kind, text, start))
        elif kind:
            tokens.append(Token(kind, text, start))
    return None


PLACES_AT_MOST: Final = 200  # of one letter, which a fix replaces


def _add_problem(problems: list[Problem], problem: Problem) -> None:
    """Add a problem; Greek letters that were reported before only add a place to it."""
    if isinstance(problem, ForeignLetters) and problem.span.text[0] in SPELLED_OUT:
        for index, other in enumerate(problems[:MISTAKES_AT_MOST]):
            if isinstance(other, ForeignLetters) and other.span.text == problem.span.text:
                if len(other.later) < PLACES_AT_MOST:
                    problems[index] = replace(other, later=(*other.later, problem.span))
                return
    problems.append(problem)


def _division(source: Source, start: int, result: Tokens) -> Meant | None:
    """A `//` that divides, while a problem more is reported: each is looked for in all the text."""
    return division_at(source.text, start) if len(result.problems) < MISTAKES_AT_MOST else None


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


def _repair_text(found: Span, group: str) -> tuple[Problem, str]:
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
        from xg.syntax.formulas import turn_comparison  # only this error pays for it

        said = turn_comparison(found)
    return ForeignSpelling(found, said, sign), meant.kind


# Where a statement ends: of all line ends, the ones that mean something to the grammar.


ITEM_WORDS = {"EDITION", "USE", "MESH", "OPTION", "OP", "BLOCK", "PLAN", "EXAMPLE"}
STATEMENT_WORDS = {"DIM", "PARAM", "STATE", "NEXT", "GIVEN", "EXPECT", "HIGHLIGHT", "NOTE"}
OPENS = {"LPAR": "RPAR", "LSQB": "RSQB"}
CLOSES = set(OPENS.values())
GOES_ON_AFTER = {"COMMA", "ARROW", "SINGLE", "DOUBLE", "EQUAL", "COLON", "VBAR", "LBRACE"}
GOES_ON_BEFORE = {
    *("ARROW", "SINGLE", "DOUBLE", "COLON", "VBAR", "PLUS_MINUS", "PLUS_SLASH_MINUS"),
    *("WHERE", "WRONG", "OVER", "IF", "AS", "LBRACE", "RBRACE"),
}


class StatementTokens:
    """The tokens from an index on, without the line ends that end no statement; to be read once.

    `position` is the index of the last token returned, `open` are the brackets open in front of it;
    `last` is the kind of the token before the first. Raises DiagnosticError when too many brackets
    are open: nothing nests without one, so this bounds the depth of every tree.
    """

    def __init__(
        self,
        source: Source,
        tokens: list[Token],
        index: int = 0,
        open: list[Token] | None = None,
        last: str = "",
    ) -> None:
        self.position = index
        self.open = open or []
        self._source = source
        self._tokens = tokens
        self._last = last if index else "LBRACE"  # a file begins as the inside of a block does

    def __iter__(self) -> Iterator[Token]:
        tokens, open, last = self._tokens, self.open, self._last
        line_end: int | None = None
        for position in range(self.position, len(tokens)):
            token = tokens[position]
            kind = token.type
            if kind == "_NL":
                if line_end is None and not open and last not in GOES_ON_AFTER:
                    line_end = position
                continue
            if line_end is not None:
                if kind not in GOES_ON_BEFORE and kind != "$END":
                    self.position = line_end
                    yield tokens[line_end]
                line_end = None
            self.position = position
            yield token
            last = kind
            if kind in OPENS:
                open.append(token)
                Nesting.check(len(open), Span(self._source, token.start, token.end))
            elif kind in CLOSES and open:
                open.pop()
