"""Tests of the sizes that the lengths of axes imply."""

from __future__ import annotations

from xg.ir.dim import Dim, symbol
from xg.ir.size_checks import closure, implied_sizes, symbols_of
from xg.ir.tensor import Sizes

D, H, N, N_H, N_P, T, k = map(symbol, ("D", "H", "N", "N_H", "N_P", "T", "k"))
LENGTHS = {"D": 12, "H": 6, "N": 9, "N_H": 3, "N_P": 2, "T": 4, "k": 5}
PLAIN = Sizes()


def solved(shape: tuple[Dim, ...], sizes: Sizes, known: set[str]) -> dict[str, int]:
    """The sizes that an array of these axes implies, where they are as in LENGTHS."""
    found: dict[str, int] = {}
    for name, size in implied_sizes([shape], sizes, known).items():
        length = shape[size.axis].evaluate(LENGTHS)
        assert {*size.symbols()} <= {*known, *found, *sizes.mesh}  # in an order that is possible
        told = size.of(length, {**LENGTHS, **found})
        assert told is not None
        found[name] = told
    return found


def test_a_formula_implies_its_only_unknown_size() -> None:
    for formula, known in (
        (T * 2, ()),
        (T + 1, ()),
        (N + k - 1, ("k",)),
        (D / N_H, ("N_H",)),
        (D * T, ("D",)),
        (D / 2 - 1, ()),
        (N * 2 + k * T - 3, ("k", "T")),
        (N * 2 + k * T - 3, ("N", "T")),
    ):
        (name,) = {*formula.symbols()} - {*known}
        assert solved((formula,), PLAIN, {*known}) == {name: LENGTHS[name]}


def test_powers_and_divisors_are_not_solved_for() -> None:
    for formula, known in ((T**2, ()), (T**2 + T, ()), (D / N_H, ("D",)), (D * T, ())):
        assert solved((formula,), PLAIN, {*known}) == {}


def test_one_size_leads_to_another() -> None:
    shape = (N + k - 1, k * 3)
    assert solved(shape, PLAIN, set()) == {"k": LENGTHS["k"], "N": LENGTHS["N"]}


def test_of_a_ranks_part_the_whole_is_implied() -> None:
    sizes = Sizes({}, {}, ("N_P",))
    assert solved((T * 2 / N_P,), sizes, set()) == {"T": LENGTHS["T"]}


def test_names_and_what_they_are_made_of() -> None:
    sizes = Sizes({"E": D * 2}, {"k": 5})
    assert symbols_of([(D * 2, N + k)], sizes) == {"E", "D", "N"}
    implied = implied_sizes([(D * 2,)], sizes, set())
    assert closure(["E"], (), sizes, implied) == (["E", "D"], ["D", "E"])
    assert closure(["E"], ["E"], sizes, implied) == (["E"], [])
