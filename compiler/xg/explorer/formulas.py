"""Formulas as data: every size and cost once, as terms in the symbols of the entry block."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from xg.dim import Dim, DimError
from xg.explorer.uses import BlockUse
from xg.graph import Program
from xg.proof.facts import SizeFacts

FREE: int = 32  # what a symbol without a number begins with

Term = tuple[int | str, dict[str, int]]


@dataclass(slots=True)
class Formulas:
    """A table of formulas, to which everything else refers by place."""

    table: dict[Dim, int] = field(default_factory=dict[Dim, int])

    def place(self, dim: Dim) -> int:
        """Where a formula stands in the table."""
        return self.table.setdefault(dim, len(self.table))

    def symbols(self) -> list[str]:
        """Every symbol of the table once, in alphabetical order."""
        return sorted({name for dim in self.table for name in dim.symbols()})

    def data(self) -> list[list[Term]]:
        """The table: of every formula its terms, a coefficient and the power of each symbol."""
        return [[_term(*term) for term in dim.terms] for dim in self.table]


def _term(monomial: tuple[tuple[str, int], ...], coefficient: object) -> Term:
    """A coefficient that a double cannot hold, or a fraction, is a text."""
    text = str(coefficient)
    whole = text.lstrip("-").isdigit() and len(text) < 15
    return (int(text) if whole else text), dict(monomial)


def start_numbers(
    program: Program, formulas: Formulas, facts: SizeFacts, proven: Mapping[str, int]
) -> dict[str, int]:
    """A number for every symbol of the table: the file's, or one for all that have none.

    Where the file forbids that one, it is the number of the proof.
    """
    given = program.main.sizes.bind(program.numbers)
    named = {name for dim in facts.dims for name in dim.symbols()}
    wanted = {name: given.get(name, FREE) for name in sorted({*formulas.symbols(), *named})}
    bounded = (low.evaluate(wanted) <= high.evaluate(wanted) for low, high in facts.bounds)
    if all(_whole(dim, wanted) for dim in facts.dims) and all(bounded):
        return {name: wanted[name] for name in formulas.symbols()}
    return {name: given.get(name, proven.get(name, FREE)) for name in formulas.symbols()}


def _whole(dim: Dim, numbers: Mapping[str, int]) -> bool:
    try:
        return dim.evaluate(numbers) > 0
    except (DimError, ZeroDivisionError):
        return False


def axis_rules(formulas: Formulas, facts: SizeFacts) -> dict[str, object]:
    """What numbers have to respect: axes that must be whole, and sizes that bound others."""
    fractions = [dim for dim in facts.dims if any(_divides(term) for term in dim.terms)]
    return {
        "whole": [formulas.place(dim) for dim in fractions],
        "bounds": [[formulas.place(low), formulas.place(high)] for low, high in facts.bounds],
    }


def _divides(term: tuple[tuple[tuple[str, int], ...], object]) -> bool:
    monomial, coefficient = term
    return "/" in str(coefficient) or any(power < 0 for _, power in monomial)


def in_entry(use: BlockUse, entry: Program, dim: Dim) -> Dim:
    """A size or cost of a block in the sizes of the entry block, nothing defined left in it."""
    return entry.main.sizes.expand(use.graph.sizes.expand(dim).substitute(use.symbols))
