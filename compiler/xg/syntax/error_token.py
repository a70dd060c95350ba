"""Describe the token where the parser stopped, the tokens it expected, and repairs.

Imported only when a file has an error.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Final

from xg.diagnostics.diagnostic import Problem, Source, Span, quoted
from xg.diagnostics.lazy_dataclass import dataclass
from xg.syntax.reader import Reader
from xg.syntax.spelling import native
from xg.syntax.tokens import Token
from xg_grammar import literals

NEAR: Final = 300  # characters at either side of a token that are looked at, at most
_ABOVE: Final = 4_000  # characters of a block that are looked at for shapes, at most


@dataclass(frozen=True, slots=True)
class Stop:
    """The place where the parser stopped: the token that does not fit, and its surroundings.

    `open` are the brackets that are open, `brace` the last brace that was opened, `statement` the
    first token of the line; `repaired` says that a comma was inserted before on it.
    """

    source: Source
    reader: Reader
    token: Token
    previous: Token | None
    following: Token | None
    open: tuple[Token, ...]
    brace: Token | None
    statement: Token | None
    begins_line: bool
    repaired: bool
    expected: frozenset[str]

    @property
    def opening(self) -> Token | None:
        """The innermost bracket that is open."""
        return self.open[-1] if self.open else None

    @property
    def here(self) -> Span:
        """The place of the token."""
        return self.span(self.token)

    @property
    def sign(self) -> str:
        """The text of the token, in the language's own signs."""
        return native(self.here.text)

    @property
    def word(self) -> str:
        """The kind of the line's first token, or "" if the token is the first."""
        return self.statement.type if self.statement else ""

    @property
    def near(self) -> tuple[str, str]:
        """The text of the line before the token, and from it on without a comment; parts of each.

        A line may be of any length.
        """
        text, start = self.source.text, self.token.start
        front = text[max(0, start - NEAR) : start].rpartition("\n")[2]
        return front.lstrip(), re.split(r"[\n#]", text[start : start + NEAR], maxsplit=1)[0]

    @property
    def line(self) -> tuple[str, str]:
        """The text of the line before the token, and the text after it."""
        front, behind = self.near
        return front.rstrip(), behind[len(self.here.text) :].strip()

    @property
    def above(self) -> str:
        """The text of the block above the line, as far as shapes are looked for there."""
        line = self.source.text.rfind("\n", 0, self.token.start) + 1
        text = self.source.text[max(0, line - _ABOVE) : line]
        return text[max(0, text.rfind("\nblock")) :]

    def span(self, token: Token) -> Span:
        """The place of a token nearby."""
        return Span(self.source, token.start, token.end)


@dataclass(frozen=True, slots=True)
class Repair:
    """An error, and the repair to continue with: tokens inserted before this one or in its place.

    The problem is None if it was reported before.
    """

    problem: Problem | None
    insert: tuple[str, ...] = ()
    drop: bool = False


# Descriptions of expected and found tokens.


_STATEMENT = ("NAME", "LPAR", "DIM", "PARAM", "STATE", "NEXT", "HIGHLIGHT", "NOTE", "EXPECT")
# If the grammar's rule could begin here, the words say so, in place of the tokens that begin it.
_RULES = (
    ("item", "a declaration such as `dim`, `op` or `block`", ()),
    ("statement", "a chain or `param`", _STATEMENT),
    ("placement", "a line such as `W_Q [D, D/N_T]`", ("NAME", "NUMBER", "STAR")),
    ("claim", "`given` or `expect`", ("GIVEN", "EXPECT")),
    ("node", "an operator", ("NAME", "NUMBER", "MATMUL", "AT", "ADD", "PLUS", "MUL", "STAR")),
    ("operand", "a value", ("NAME", "LPAR")),
    ("expr", "an expression", ("NAME", "NUMBER", "MINUS", "LPAR", "LSQB", "UNDERSCORE")),
    ("sum", "a size", ("NAME", "NUMBER", "MINUS", "LPAR", "LSQB", "UNDERSCORE", "DOTS")),
    ("atom", "a number or a name", ("NAME", "NUMBER", "LPAR", "LSQB", "UNDERSCORE")),
    ("axis", "an axis", ("NAME", "NUMBER", "DOTS", "LPAR")),
    ("shape", "a shape `[…]`", ("LSQB",)),
    ("ports", "a name with its shape", ("NAME",)),
)
_WORDS = {
    "NAME": "a name",
    "NUMBER": "a number",
    "STRING": 'a text `"…"`',
    "_NL": "the end of the line",
    "$END": "the end of the file",
    "COLON": "a label `: NAME`",
}
# Reported only where nothing more useful could be.
_LESS_USEFUL = (
    {"PLUS", "MINUS", "STAR", "SLASH", "CARET", "GREATER", "AT_LEAST", "DOT", "CROSS"},
    {
        "OVER",
        "REVERSED",
        "IF",
        "AS",
        "SINGLE",
        "DOUBLE",
        "IN",
        "VBAR",
        "PLUS_MINUS",
        "PLUS_SLASH_MINUS",
        "WRONG",
    },
)
_FOLLOWS_A_NODE = {"ARROW", "COLON", "COMMA", "_NL"}  # then `[` and `(` are less useful too
_FIRST = (
    *("LPAR", "COMMA", "RPAR", "RSQB", "ARROW", "COLON"),
    *("EQUAL", "LBRACE", "RBRACE", "_NL", "$END"),
)
_TOLD_AT_MOST = 4


def describe_choices(reader: Reader, kinds: Collection[str]) -> str:
    """The tokens that could come next, in words: a value, a comma or the end of the line."""
    left = set(kinds)
    told: list[str] = []
    for rule, words, beginnings in _RULES:
        if rule in reader.choices and (not beginnings or left & set(beginnings)):
            told.append(words)
            left -= set(beginnings)
            if rule == "item":
                left.clear()
    for group in _LESS_USEFUL:
        if told or left - group:
            left -= group
    if left & _FOLLOWS_A_NODE:
        left -= {"LSQB", "LPAR"}
    if "_NL" in left:
        left -= {"$END", "RBRACE"}
    ordered = [kind for kind in _FIRST if kind in left] + sorted(left - set(_FIRST))
    told += map(_word, ordered)
    *most, last = told[:_TOLD_AT_MOST]
    return f"{', '.join(most)} or {last}" if most else last


def describe_token(token: Token, span: Span) -> str:
    """The token that came."""
    if token.type in ("_NL", "$END"):
        return _WORDS[token.type]
    if token.type == "STRING":
        return "a text"
    return quoted(span.text)


def _word(kind: str) -> str:
    if kind in _WORDS:
        return _WORDS[kind]
    return next(f"`{text}`" for text, name in literals().items() if name == kind)
