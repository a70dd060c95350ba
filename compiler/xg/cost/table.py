"""Print values and tables as aligned text, or give them as data."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from math import isfinite
from typing import Final, Generic, TypeVar

from xg.diagnostics.lazy_dataclass import dataclass
from xg.diagnostics.terminal import width
from xg.ir.dim import Dim

# Values of results: formulas, numbers and times, as text and as data.


_UNITS: Final = (("s", 1.0), ("ms", 1e-3), ("us", 1e-6), ("ns", 1e-9))


@dataclass(frozen=True, slots=True)
class Evaluated:
    """A formula with the numbers for its symbols: text is the number, data are both."""

    dim: Dim
    numbers: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Seconds:
    """Seconds, None where they are unknown."""

    number: float | None


Cell = str | int | float | bool | Dim | Evaluated | Seconds | Mapping[str, object] | None


def text_of(cell: Cell) -> str:
    """A value as people read it."""
    match cell:
        case None:
            return ""
        case Evaluated(dim, numbers):
            return amount(dim, numbers)
        case Seconds(time):
            return seconds(time)
        case _:
            return str(cell)


def data_of(cell: Cell) -> object:
    """A value as JSON has it: a formula as text, what is not finite as null."""
    match cell:
        case Dim():
            return str(cell)
        case Evaluated(dim, numbers):
            return {"formula": str(dim), "number": evaluate_dim(dim, numbers)}
        case Seconds(time):
            return time
        case float() if not isfinite(cell):
            return None
        case _:
            return cell


def evaluate_dim(dim: Dim, numbers: Mapping[str, int]) -> int | None:
    """A formula as a number, None while a symbol has none.

    Elements that do not divide evenly among ranks are rounded up.
    """
    if any(name not in numbers for name in dim.symbols()):
        return None
    total = Fraction(0)
    for monomial, coefficient in dim.terms:
        term = coefficient
        for name, power in monomial:
            term *= Fraction(numbers[name]) ** power
        total += term
    return -(-total.numerator // total.denominator)


def amount(dim: Dim, numbers: Mapping[str, int]) -> str:
    """A formula as a number with commas, or ``?``."""
    value = evaluate_dim(dim, numbers)
    return "?" if value is None else f"{value:,}"


def seconds(value: float | None) -> str:
    """A time with three digits, or ``?``."""
    if value is None:
        return "?"
    unit, scale = next((each for each in _UNITS if value >= each[1]), _UNITS[-1])
    return f"{value / scale:.3g} {unit}" if value else "0"


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
        return align_columns([*heads, *rows], right, indent)

    def data(self) -> list[Mapping[str, object]]:
        """The rows for JSON."""
        return [
            {column.key: data_of(column.value(row)) for column in self.columns if column.key}
            for row in self.rows
        ]


def _text(column: Column[Row], row: Row) -> str:
    return text_of(column.value(row)) if column.text is None else column.text(row)


def align_columns(
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
