"""The lines of a program as its author broke them, but for braces, which have fixed places."""

from __future__ import annotations

from dataclasses import replace

from xg.diagnostics.lazy_dataclass import dataclass
from xg.syntax.tokens import Token


@dataclass(frozen=True, slots=True)
class Line:
    """Tokens and a comment behind them; a line of a comment alone has no tokens.

    `spaced` says that a blank line precedes it.
    """

    tokens: tuple[Token, ...]
    comment: Token | None
    spaced: bool

    @property
    def kind(self) -> str:
        """The kind of the first token, "" for a line of a comment alone."""
        return self.tokens[0].type if self.tokens else ""


class LineSplitter:
    """Sorts tokens and comments into lines: a brace opens at the end of a line and closes alone."""

    def __init__(self) -> None:
        self._lines: list[Line] = []
        self._tokens: list[Token] = []
        self._line_ends = 0  # since the last token or comment

    def split(self, tokens: list[Token], comments: list[Token]) -> list[Line]:
        """The lines of all tokens and comments."""
        for token in sorted([*tokens, *comments], key=lambda token: (token.start, token.end)):
            if token.type in ("_NL", "$END"):
                self._end_line()
                self._line_ends += 1
            elif token.type == "COMMENT":
                self._comment(token)
            else:
                self._token(token)
        return self._lines

    def _token(self, token: Token) -> None:
        if token.type == "LBRACE":
            self._brace(token)
            return
        if token.type == "RBRACE":
            self._end_line()
        if not self._tokens:
            self._spaced = self._line_ends > 1
        self._tokens.append(token)
        self._line_ends = 0

    def _brace(self, brace: Token) -> None:
        """Put an opening brace behind the tokens in front of it, on their line."""
        self._end_line()
        last = next(i for i in reversed(range(len(self._lines))) if self._lines[i].tokens)
        line = self._lines[last]
        self._lines[last] = replace(line, tokens=(*line.tokens, brace))
        self._line_ends = 0

    def _comment(self, comment: Token) -> None:
        """Put a comment behind the tokens in front of it, if they are on its line."""
        spaced = self._line_ends > 1
        self._end_line()
        behind_code = self._line_ends == 0 and bool(self._lines)
        if behind_code and self._lines[-1].comment is None:
            self._lines[-1] = replace(self._lines[-1], comment=comment)
        else:
            self._lines.append(Line((), comment, spaced))
        self._line_ends = 0

    def _end_line(self) -> None:
        if self._tokens:
            self._lines.append(Line(tuple(self._tokens), None, self._spaced))
            self._tokens = []
