"""Source text and places in it: what every message points at."""

from __future__ import annotations

from bisect import bisect_right
from functools import cached_property

from xg.diagnostics.lazy_dataclass import dataclass, field


@dataclass(frozen=True, eq=False)
class Source:
    """One file: the name people see and its text, with `\n` as its only line end.

    Two sources are the same only if they are the same object.
    """

    name: str
    text: str = field(repr=False)

    @classmethod
    def from_bytes(cls, name: str, data: bytes) -> Source:
        """Decode a file; never fails.

        A byte that is not UTF-8 becomes a lone surrogate, which `parse` reports at its place, as it
        does every other character that has no business in a program.
        """
        return cls(name, data.decode("utf-8", "surrogateescape").replace("\r\n", "\n"))

    @cached_property
    def line_starts(self) -> tuple[int, ...]:
        """Offset of the first character of each line."""
        starts = [0]
        end = self.text.find("\n")
        while end >= 0:
            starts.append(end + 1)
            end = self.text.find("\n", end + 1)
        return tuple(starts)

    def line(self, offset: int) -> int:
        """Line number of an offset, counted from 1."""
        return bisect_right(self.line_starts, offset)

    def column(self, offset: int) -> int:
        """Column of an offset in its line, in characters, counted from 1."""
        return offset - self.line_starts[self.line(offset) - 1] + 1

    def line_text(self, line: int) -> str:
        """Text of a line (counted from 1) without its line end."""
        starts = self.line_starts
        end = starts[line] - 1 if line < len(starts) else len(self.text)
        return self.text[starts[line - 1] : end]


@dataclass(frozen=True, slots=True)
class Span:
    """The characters `start` to `end` (excluded) of a source."""

    source: Source
    start: int
    end: int

    @property
    def text(self) -> str:
        """The text of the span, as written."""
        return self.source.text[self.start : self.end]

    @property
    def line(self) -> int:
        """Line of the first character, counted from 1."""
        return self.source.line(self.start)

    @property
    def column(self) -> int:
        """Column of the first character, counted from 1."""
        return self.source.column(self.start)
