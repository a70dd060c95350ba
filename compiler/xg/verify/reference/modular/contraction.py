"""Sums of products of residues that no 64 bits overflow."""

from __future__ import annotations

from math import prod
from typing import Final, NamedTuple

import numpy as np

from xg.verify.reference.modular.residues import Field, finite
from xg_runtime.module import Array

FEW: Final = 4  # products of residues, below 2⁶⁰ each, that 64 bits hold the sum of
LIMB: Final = 15  # bits of the lower part of a factor
BLOCK: Final = 256  # products of a part and a residue, below 2⁴⁵, that a float holds the sum of
MANY: Final = 2**17  # such products that 64 bits hold the sum of
SMALL: Final = 2**12  # multiplications up to which calling BLAS costs more than it saves


def contract(field: Field, spec: str, a: Array, b: Array) -> Array:
    """Sum of products in index letters, ``"bik,kj->bij"``, any number of them."""
    finite(a, b)
    inputs, output = spec.split("->")
    left, right = inputs.split(",")
    sizes = dict(zip(left + right, a.shape + b.shape, strict=True))
    summed = [letter for letter in sizes if letter not in output]
    terms = prod(sizes[letter] for letter in summed)
    if terms <= FEW:
        return field.wrap(np.asarray(np.einsum(spec, a, b)))
    shared = all(letter in left and letter in right for letter in summed)
    if shared and prod(sizes.values()) > SMALL:
        return _in_blocks(field, _Letters(left, right, output), a, b)
    assert terms <= MANY
    upper, lower = (np.einsum(spec, part, b) for part in _parts(a))
    return _joined(field, np.asarray(upper), np.asarray(lower))


def _parts(x: Array) -> tuple[Array, Array]:
    """The upper and the lower bits of residues: ``x = 2¹⁵ upper + lower``."""
    upper = (x + (1 << (LIMB - 1))) >> LIMB
    return upper, x - (upper << LIMB)


def _joined(field: Field, upper: Array, lower: Array) -> Array:
    return field.wrap((upper % field.prime << LIMB) + lower)


class _Letters(NamedTuple):
    """The index letters of a product of matrices, one for each of a batch."""

    left: str
    right: str
    output: str

    def of(self, left: bool, right: bool, output: bool) -> str:
        """The letters that occur in exactly these."""
        there = dict.fromkeys(self.left + self.right)
        where = (left, right, output)
        return "".join(c for c in there if tuple(c in word for word in self) == where)


def _in_blocks(field: Field, letters: _Letters, a: Array, b: Array) -> Array:
    """As products of matrices of floats, each of so few terms that every sum is exact."""
    batch, summed = letters.of(True, True, True), letters.of(True, True, False)
    rows, columns = letters.of(True, False, True), letters.of(False, True, True)
    sizes = dict(zip(letters.left + letters.right, a.shape + b.shape, strict=True))
    groups = [[sizes[letter] for letter in group] for group in (batch, rows, columns, summed)]
    count, height, width, terms = map(prod, groups)
    x = np.einsum(f"{letters.left}->{batch + rows + summed}", a).reshape(count, height, terms)
    y = np.einsum(f"{letters.right}->{batch + summed + columns}", b).reshape(count, terms, width)
    total = np.zeros((count, height, width), dtype=np.int64)
    for start in range(0, terms, BLOCK):
        block = y[:, start : start + BLOCK].astype(np.float64)
        parts = _parts(x[:, :, start : start + BLOCK])
        upper, lower = ((part.astype(np.float64) @ block).astype(np.int64) for part in parts)
        total = field.wrap(total + _joined(field, upper, lower))
    whole = total.reshape([size for group in groups[:3] for size in group])
    return np.einsum(f"{batch + rows + columns}->{letters.output}", whole)
