"""Where a statement ends: of all line ends, the ones that mean something to the grammar."""

from __future__ import annotations

from collections.abc import Iterator

from xg.diagnostics.limits import Nesting
from xg.diagnostics.source import Source, Span
from xg.syntax.tokens import Token

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
