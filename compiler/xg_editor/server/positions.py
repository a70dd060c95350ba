"""Places as the protocol counts them: lines from 0, columns in the code units of an encoding."""

from __future__ import annotations

import re
from bisect import bisect_right

from lsprotocol import types

from xg.diagnostics.source import Source, Span

_LINE_END = re.compile(r"\n|\r")  # `\r\n` is `\n` in a source; a lone `\r` ends a line here only
_UNITS = {
    types.PositionEncodingKind.Utf8: ("utf-8", 1),
    types.PositionEncodingKind.Utf16: ("utf-16-le", 2),
    types.PositionEncodingKind.Utf32: ("utf-32-le", 4),
}


class TextPositions:
    """Offsets of one source as positions, and back."""

    def __init__(self, source: Source, encoding: types.PositionEncodingKind | str) -> None:
        self.text = source.text
        self.starts = [0, *(match.end() for match in _LINE_END.finditer(source.text))]
        kind = types.PositionEncodingKind(encoding)
        self.codec, self.bytes_of_unit = _UNITS[kind]

    def position(self, offset: int) -> types.Position:
        """Where the character at an offset is."""
        line = bisect_right(self.starts, offset) - 1
        units = self._encoded(self.text[self.starts[line] : offset])
        return types.Position(line, len(units) // self.bytes_of_unit)

    def offset(self, position: types.Position) -> int:
        """The character at a position; one behind the end of a line or text is its end."""
        if position.line >= len(self.starts):
            return len(self.text)
        start = self.starts[position.line]
        last = position.line + 1 == len(self.starts)
        end = len(self.text) if last else self.starts[position.line + 1] - 1
        units = self._encoded(self.text[start:end])[: position.character * self.bytes_of_unit]
        return start + len(units.decode(self.codec, "ignore"))

    def range(self, span: Span) -> types.Range:
        """Where a span begins and ends."""
        return types.Range(self.position(span.start), self.position(span.end))

    def _encoded(self, text: str) -> bytes:
        return text.encode(self.codec, "surrogatepass")
