"""Where each line of a program begins, and the text that the lines make."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from xg.diagnostics.source import Source
from xg.diagnostics.terminal import width
from xg.syntax.line_ends import CLOSES, GOES_ON_AFTER, GOES_ON_BEFORE, OPENS
from xg.syntax.lines import Line
from xg.syntax.spacing import Spacing
from xg.syntax.tokens import Token

STEP = 4
CHAIN_STEP = 2  # an arrow that continues a chain is indented a little
_GO_ON_A_CHAIN = {"ARROW", "SINGLE", "DOUBLE", "COLON", "OVER", "IF", "AS"}
_BEGIN_A_LIST = {
    *("USE", "DIM", "MESH", "OPTION", "PARAM", "STATE", "NEXT", "GIVEN", "WHERE", "COLON"),
    *("HIGHLIGHT", "NOTE"),
}


class _Bracket(NamedTuple):
    """An open bracket: where the lines inside it begin, and where it closes if it ended a line."""

    inside: int
    closes: int


class LineWriter:
    """Writes the lines of one program; a continued line is aligned with its first.

    `columns` are the columns of tokens, by offset; `padding` how much wider than usual the gap in
    front of a token is.
    """

    def __init__(self, source: Source, spacing: Spacing, padding: Mapping[int, int]) -> None:
        self.columns: dict[int, int] = {}
        self._source = source
        self._spacing = spacing
        self._padding = padding
        self._written: list[str] = []
        self._in_braces = False
        self._brackets: list[_Bracket] = []
        self._statement = 0  # where the statement begins that is being written
        self._list = 0  # where the things in its list begin
        self._last = "LBRACE"  # the kind of the last token

    def write(self, lines: Iterable[Line]) -> str:
        """The text of all lines."""
        remarks: list[Line] = []  # lines of comments: indented as the line below them
        for line in lines:
            if not line.tokens:
                remarks.append(line)
                continue
            column = self._begin(line)
            for remark in remarks:
                self._put(remark, STEP if line.kind == "RBRACE" else column, "")
            remarks.clear()
            self._put(line, column, self._code(line, column))
        for remark in remarks:
            self._put(remark, 0, "")
        return "".join(text + "\n" for text in self._written)

    def _begin(self, line: Line) -> int:
        """The column of a line, by what it begins with and what is still open."""
        if self._brackets:
            bracket = self._brackets[-1]
            return bracket.closes if line.kind in CLOSES else bracket.inside
        self._in_braces = self._in_braces and line.kind != "RBRACE"
        goes_on_before = line.kind in GOES_ON_BEFORE and line.kind != "RBRACE"
        if self._last == "LBRACE" or not (goes_on_before or self._last in GOES_ON_AFTER):
            self._statement = STEP * self._in_braces
            self._list = self._statement + STEP
            return self._statement
        if self._last == "COMMA":
            return self._list
        return self._statement + (CHAIN_STEP if line.kind in _GO_ON_A_CHAIN else STEP)

    def _code(self, line: Line, column: int) -> str:
        """The tokens of a line that begins at a column."""
        pieces = [" " * column]
        at = column
        before: Token | None = None
        for token in line.tokens:
            if before is not None:
                gap = self._spacing.gap(before, token) + " " * self._padding.get(token.start, 0)
                pieces.append(gap)
                at += len(gap)
            if before is not None and before.type in _BEGIN_A_LIST and not self._brackets:
                self._list = at
            self.columns[token.start] = at
            pieces.append(self._spacing.text(token))
            at += width(pieces[-1])
            self._follow(token, column, at, is_last=token is line.tokens[-1])
            before = token
        return "".join(pieces)

    def _follow(self, token: Token, line_column: int, end: int, *, is_last: bool) -> None:
        """Keep track of brackets that are open behind a token."""
        if token.type in OPENS and is_last:
            self._brackets.append(_Bracket(line_column + STEP, line_column))
        elif token.type in OPENS:
            self._brackets.append(_Bracket(end, end))
        elif token.type in CLOSES:
            self._brackets.pop()
        self._in_braces = self._in_braces or token.type == "LBRACE"
        self._last = token.type

    def _put(self, line: Line, column: int, code: str) -> None:
        """Write a line with its comment, and the blank line in front if there is to be one."""
        above = self._written[-1] if self._written else "{"
        if line.spaced and line.kind != "RBRACE" and not above.endswith("{"):
            self._written.append("")
        if line.comment is None:
            self._written.append(code)
        else:
            comment = self._source.text[line.comment.start : line.comment.end].rstrip()
            self._written.append(f"{code}  {comment}" if code else " " * column + comment)
