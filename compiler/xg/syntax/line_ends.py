"""Where a statement ends: of all line ends, the ones that mean something to the grammar."""

from __future__ import annotations

from collections.abc import Iterator

from xg.limits import Nesting
from xg.source import Source, Span
from xg.syntax.tokens import Token

OPENS = {"LPAR": "RPAR", "LSQB": "RSQB"}
CLOSES = set(OPENS.values())
GOES_ON_AFTER = {"COMMA", "ARROW", "SINGLE", "DOUBLE", "EQUAL", "COLON", "VBAR", "LBRACE"}
GOES_ON_BEFORE = {
    *("ARROW", "SINGLE", "DOUBLE", "COLON", "VBAR", "PLUS_MINUS", "PLUS_SLASH_MINUS"),
    *("WHERE", "WRONG", "IF", "AS", "LBRACE", "RBRACE"),
}


class StatementTokens(Iterator[Token]):
    """The tokens from `index` on, without comments and without line ends that end no statement.

    `open` holds the brackets open where the iteration stands. Raises DiagnosticError when too many
    are: nothing nests without a bracket, so this bounds every tree.
    """

    def __init__(self, source: Source, tokens: list[Token], index: int = 0) -> None:
        self.open: list[Token] = []
        self._source = source
        self._tokens = tokens
        self._next = self._significant(index)

    def __iter__(self) -> Iterator[Token]:
        return self._next

    def __next__(self) -> Token:
        return next(self._next)

    def _significant(self, index: int) -> Iterator[Token]:
        tokens, open = self._tokens, self.open
        last = "LBRACE" if index == 0 else ""  # a file begins as the inside of a block does
        held: Token | None = None
        for position in range(index, len(tokens)):
            token = tokens[position]
            kind = token.kind
            if kind == "_NL":
                if not open and last not in GOES_ON_AFTER:
                    held = held or token
                continue
            if kind == "COMMENT":
                continue
            if held is not None:
                if kind not in GOES_ON_BEFORE and kind != "$END":
                    yield held
                held = None
            if kind in OPENS:
                open.append(token)
                Nesting.check(len(open), Span(self._source, token.start, token.end))
            elif kind in CLOSES and open:
                open.pop()
            last = kind
            yield token
