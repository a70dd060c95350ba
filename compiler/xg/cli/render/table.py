"""Columns of text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from xg.diagnostics.terminal import width


def table(rows: Sequence[Sequence[str]], right: frozenset[int] = frozenset()) -> Iterator[str]:
    """The rows as lines, columns aligned; those numbered in `right` end together."""
    widths = [max(map(width, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = [
            _padded(cell, space, right=place in right)
            for place, (cell, space) in enumerate(zip(row, widths, strict=True))
        ]
        yield "  ".join(cells).rstrip()


def _padded(cell: str, space: int, *, right: bool) -> str:
    filling = " " * (space - width(cell))
    return filling + cell if right else cell + filling
