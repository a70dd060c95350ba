"""Formatting as an edit: the lines that `xg fmt` would write otherwise."""

from __future__ import annotations

from itertools import takewhile

from lsprotocol import types

from xg.diagnostics.diagnostic import DiagnosticError
from xg.diagnostics.source import Source, Span
from xg.syntax.format import format
from xg_editor.server.positions import TextPositions


def layout_edits(
    text: str, source: Source, positions: TextPositions
) -> list[types.TextEdit] | None:
    """One edit from the first line that changes to the last; None for a text with errors.

    Args:
        text: the text as the editor has it, with its line ends.
        source: the same with those of the language.
        positions: of `source`.
    """
    try:
        formatted = format(source)
    except DiagnosticError:
        return None
    if formatted == text:
        return []
    old, new = (each.splitlines(keepends=True) for each in (source.text, formatted))
    if "\r" in text:  # every line end changes
        return [_edit(source, positions, 0, len(source.text), formatted)]
    same = sum(1 for _ in takewhile(_equal, zip(old, new, strict=False)))
    tails = zip(reversed(old[same:]), reversed(new[same:]), strict=False)
    tail = sum(1 for _ in takewhile(_equal, tails))
    start = sum(map(len, old[:same]))
    end = len(source.text) - sum(map(len, old[len(old) - tail :]))
    return [_edit(source, positions, start, end, "".join(new[same : len(new) - tail]))]


def _equal(pair: tuple[str, str]) -> bool:
    return pair[0] == pair[1]


def _edit(
    source: Source, positions: TextPositions, start: int, end: int, text: str
) -> types.TextEdit:
    return types.TextEdit(positions.range(Span(source, start, end)), text)
