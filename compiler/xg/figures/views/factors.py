"""The order of factors in the costs that figures print: one for all of a figure."""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum


class _Kind(IntEnum):
    """Counted things, in the order in which people write a product: B·N_H·S·D_h."""

    BATCH = 0
    COUNT = 1
    LENGTH = 2
    WIDTH = 3


def in_order(factors: Iterable[str]) -> list[str]:
    """Return factors as people write them: batch, counts, lengths, widths.

    Widths of a matrix are in alphabetical order, so that it and its transpose cost the same to the
    eye; those of what has a batch or a length are in the order of its axes.

    >>> in_order(["D_ff", "D"]), in_order(["B", "S", "N_H", "D_h"])
    (['D', 'D_ff'], ['B', 'N_H', 'S', 'D_h'])
    """
    known = list(factors)
    kinds = {one: _kind(one) for one in known}
    is_matrix = not {_Kind.BATCH, _Kind.LENGTH} & set(kinds.values())
    return sorted(known, key=lambda one: (kinds[one], one if is_matrix else ""))


def factors_of(product: str) -> list[str]:
    """Return the factors of a product; what is more than a product is one factor.

    >>> factors_of("N_KV*D_h"), factors_of("N_P + 1"), factors_of("D/N_H")
    (['N_KV', 'D_h'], ['N_P + 1'], ['D/N_H'])
    """
    factors = product.split("*")
    return factors if all(one.isidentifier() for one in factors) else [product]


def _kind(factor: str) -> _Kind:
    name = factor.split("^")[0]
    if name == "B":
        return _Kind.BATCH
    if name.startswith("N_") and name.isidentifier():
        return _Kind.COUNT
    return _Kind.LENGTH if name == "S" or name.startswith("S_") else _Kind.WIDTH
