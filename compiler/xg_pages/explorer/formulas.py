"""Formulas as data: every size and cost once, as a text in the symbols of the entry block."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Final, Generic, TypeVar

from xg.ir.dim import Coefficient, Dim, DimError, Monomial, product, symbol
from xg.ir.graph import Program
from xg.verify.facts import SizeFacts
from xg_pages.explorer.uses import BlockUse

FREE: Final = (32, 48, 240)  # what symbols without a number begin with: the first that is allowed


Row = TypeVar("Row", bound=Hashable)


class FactTable(Generic[Row]):
    """A table of rows that are there once, to which everything else refers by place."""

    def __init__(self) -> None:
        self.rows: dict[Row, int] = {}

    def place(self, row: Row) -> int:
        """The index of a row in the table."""
        return self.rows.setdefault(row, len(self.rows))


class Formulas(FactTable[Dim]):
    """A table of formulas."""

    def symbols(self) -> list[str]:
        """Every symbol of the table once, in alphabetical order."""
        return sorted({name for dim in self.rows for name in dim.symbols()})

    def data(self) -> list[str]:
        """The table: sums of terms such as ``3*B*S^2/(2*N_T)``."""
        return [str(dim) for dim in self.rows]


def start_numbers(
    program: Program,
    formulas: Formulas,
    facts: SizeFacts,
    mesh: Mapping[str, int],
    proven: Mapping[str, int],
) -> dict[str, int]:
    """A number for every symbol of the table: the file's, or one for all that have none.

    Where the file forbids that one, it is the number of the proof. `mesh` has the ranks.
    """
    numbers = {**mesh, **program.main.sizes.bind(program.numbers)}
    named = {name for dim in facts.dims for name in dim.symbols()}
    for free in FREE:
        sizes = {name: numbers.get(name, free) for name in sorted({*formulas.symbols(), *named})}
        bounded = (low.evaluate(sizes) <= high.evaluate(sizes) for low, high in facts.bounds)
        if all(_whole(dim, sizes) for dim in facts.dims) and all(bounded):
            return {name: sizes[name] for name in formulas.symbols()}
    return {name: numbers.get(name, proven.get(name, FREE[0])) for name in formulas.symbols()}


def _whole(dim: Dim, numbers: Mapping[str, int]) -> bool:
    try:
        return dim.evaluate(numbers) > 0
    except DimError:
        return False


def axis_rules(program: Program, formulas: Formulas, facts: SizeFacts) -> dict[str, object]:
    """Constraints on numbers: axes that must be whole, and sizes that bound others.

    Of an axis that ranks share: its global length, its name, and the mesh axes.
    """
    fractions = [dim for dim in facts.dims if any(_divides(term) for term in dim.terms)]
    return {
        "whole": [_shared(dim, program, formulas) for dim in fractions],
        "bounds": [[formulas.place(low), formulas.place(high)] for low, high in facts.bounds],
    }


def _shared(dim: Dim, program: Program, formulas: Formulas) -> list[object]:
    """The global length of an axis; if ranks share it, with its text and their mesh axes."""
    below = [{name for name, power in term if power < 0} for term, _ in dim.terms]
    over = [axis for axis in program.mesh if all(axis in names for names in below)]
    whole = dim * product(map(symbol, over))
    return [formulas.place(whole), str(program.main.sizes.fold(whole)), over]


def _divides(term: tuple[Monomial, Coefficient]) -> bool:
    monomial, coefficient = term
    return coefficient.denominator > 1 or any(power < 0 for _, power in monomial)


def in_entry(use: BlockUse, entry: Program, dim: Dim) -> Dim:
    """A size or cost of a block in the sizes of the entry block, nothing defined left in it."""
    return entry.main.sizes.expand(use.graph.sizes.expand(dim).substitute(use.symbols))
