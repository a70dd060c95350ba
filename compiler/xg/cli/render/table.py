"""Tables: columns that read each row, printed as aligned text or given as data."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Generic, TypeVar

from xg.cli.render.amounts import Cell, data_of, text_of
from xg.diagnostics.lazy_dataclass import dataclass
from xg.diagnostics.terminal import width

Row = TypeVar("Row")


@dataclass(frozen=True, slots=True)
class Column(Generic[Row]):
    """One property of every row.

    Without a head it is not in the text, without a key not in the data. `text` writes it for people
    where that differs from its value; `right` aligns numbers.
    """

    head: str | None
    key: str | None
    value: Callable[[Row], Cell]
    text: Callable[[Row], str] | None = None
    right: bool = False


@dataclass(frozen=True, slots=True)
class Table(Generic[Row]):
    """Rows that are all shown in the same columns."""

    columns: Sequence[Column[Row]]
    rows: Sequence[Row]

    def lines(self, indent: str = "") -> Iterator[str]:
        """The rows, under their heads if they have any, columns aligned."""
        shown = [column for column in self.columns if column.head is not None]
        heads = [[str(column.head) for column in shown]] if any(c.head for c in shown) else []
        rows = [[_text(column, row) for column in shown] for row in self.rows]
        right = frozenset(place for place, column in enumerate(shown) if column.right)
        return aligned([*heads, *rows], right, indent)

    def data(self) -> list[Mapping[str, object]]:
        """The rows for JSON."""
        return [
            {column.key: data_of(column.value(row)) for column in self.columns if column.key}
            for row in self.rows
        ]


def _text(column: Column[Row], row: Row) -> str:
    return text_of(column.value(row)) if column.text is None else column.text(row)


def aligned(
    rows: Sequence[Sequence[str]], right: frozenset[int] = frozenset(), indent: str = ""
) -> Iterator[str]:
    """Rows of texts as lines, columns aligned; those numbered in `right` end together."""
    widths = [max(map(width, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = (
            f"{'':{space - width(cell)}}{cell}"
            if place in right
            else f"{cell}{'':{space - width(cell)}}"
            for place, (cell, space) in enumerate(zip(row, widths, strict=True))
        )
        yield f"{indent}{'  '.join(cells).rstrip()}"
