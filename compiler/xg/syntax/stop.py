"""The place where the parser stopped, and how it goes on from there.

Imported only when a file has an error.
"""

from __future__ import annotations

import re
from typing import Final

from xg.diagnostics.diagnostic import Problem
from xg.diagnostics.lazy_dataclass import dataclass
from xg.diagnostics.source import Source, Span
from xg.syntax.foreign import native
from xg.syntax.reader import Reader
from xg.syntax.tokens import Token

NEAR: Final = 300  # characters at either side of a token that are looked at, at most


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
    def line(self) -> tuple[str, str]:
        """The text of the line before the token, and behind it."""
        text, start = self.source.line_text(self.here.line), self.here.column - 1
        return text[:start].strip(), text[start + len(self.here.text) :].partition("#")[0].strip()

    @property
    def near(self) -> tuple[str, str]:
        """The text of the line before the token, and from it on without a comment; parts of each.

        A line may be of any length.
        """
        text, start = self.source.text, self.token.start
        front = text[max(0, start - NEAR) : start].rpartition("\n")[2]
        return front, re.split(r"[\n#]", text[start : start + NEAR], maxsplit=1)[0]

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
