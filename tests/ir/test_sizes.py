"""Tests of `Sizes`: how sizes are written for people and in code."""

from __future__ import annotations

from itertools import product

from xg.ir.dim import Dim, DimError, number, symbol
from xg.ir.tensor import Sizes

D, D_r, H, N_H, N_KV, N_T, P = map(symbol, ("D", "D_r", "H", "N_H", "N_KV", "N_T", "P"))
DEFINED = {"D_h": D / N_H, "D_ff": D * 4, "H_2": H / 2, "N": H * D / P**2}
SIZES = Sizes(DEFINED, {}, ("N_T",))
# A size, how people read it, and how code computes it.
WRITTEN = [
    (D / N_H, "D_h", "D_h"),
    (D / N_H + D_r, "D_h + D_r", "D_h + D_r"),
    (D * 2 / N_H, "2*D_h", "2*D/N_H"),
    (D / N_H / 2, "D_h/2", "D_h/2"),
    (N_KV * D / N_H, "N_KV*D_h", "N_KV*D/N_H"),
    (N_KV * D / N_H / N_T, "N_KV*D_h/N_T", "N_KV*D/(N_H*N_T)"),
    (D / N_H / P, "D_h/P", "D_h/P"),
    (D / N_H + H / 2, "D_h + H_2", "D/N_H + H/2"),
    (D * 4 + 1, "D_ff + 1", "D_ff + 1"),
    (H * D / P**2 + 1, "N + 1", "N + 1"),
    (D_r / N_H, "D_r/N_H", "D_r/N_H"),
    (D * 2, "2*D", "2*D"),
    (number(0), "0", "0"),
]


def test_sizes_are_written_in_names_of_the_file() -> None:
    for size, read, computed in WRITTEN:
        assert (str(SIZES.fold(size)), str(SIZES.fold_exactly(size))) == (read, computed)
        assert SIZES.expand(SIZES.fold(size)) == SIZES.expand(SIZES.fold_exactly(size)) == size


def test_names_in_code_are_whole_where_the_size_is() -> None:
    free = ("D", "D_r", "H", "N_H", "N_KV", "N_T", "P")
    seen = 0
    for numbers in product((6, 8), (3,), (5, 8), (2, 3, 4), (2, 6), (1, 2), (1, 2)):
        sizes: dict[str, int] = dict(zip(free, numbers, strict=True))
        for size, _, _ in WRITTEN:
            if is_whole(size, sizes):
                names = DEFINED.keys() & SIZES.fold_exactly(size).symbols()
                assert all(is_whole(DEFINED[name], sizes) for name in names)
                seen += len(names)
    assert seen


def test_parts_that_are_not_whole_add_up_exactly() -> None:
    assert (D / 2 + H / 2 + P).evaluate({"D": 5, "H": 3, "P": 7}) == 11
    assert (D / 2 - H / 2).evaluate({"D": 4, "H": 2}) == 1


def is_whole(size: Dim, sizes: dict[str, int]) -> bool:
    try:
        size.evaluate(sizes)
    except DimError:
        return False
    return True
