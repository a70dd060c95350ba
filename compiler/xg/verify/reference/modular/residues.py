"""The integers modulo a prime, as arrays.

A residue is an int64 between -p/2 and p/2, so that small integers are themselves and comparing
residues compares them in that order. Products of two fit into 64 bits.

One number is outside: MINUS_INFINITY is the -inf of masked scores. It is below every residue, so
that comparisons and maxima need nothing special, and it stays itself in sums and products; only an
exponential turns it into a residue, 0. An operation without a meaning, as -inf - -inf and the
inverse of 0, raises Undefined: another draw of the inputs is likely to avoid it.
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from itertools import accumulate
from math import prod
from typing import Final, NamedTuple

import numpy as np

from xg.diagnostics.lazy_dataclass import dataclass
from xg_runtime.module import Array

PRIMES: Final = (2**31 - 1, 2**31 - 19, 2**31 - 61)
MINUS_INFINITY: Final = -(2**61)
HIDDEN: Final = MINUS_INFINITY // 2  # no sum of residues goes below, and -inf plus one stays below
SIMPLE: Final = 2**20  # the largest denominator that a float is taken for a rounded fraction with
ROUNDING: Final = 2.0**-50  # how far, relatively, such a float may have been rounded


class Undefined(ArithmeticError):
    """A number that does not exist."""


@dataclass(frozen=True, slots=True)
class Field:
    """The integers modulo an odd prime below 2³¹."""

    prime: int

    @property
    def half(self) -> int:
        """The largest residue."""
        return self.prime // 2

    def wrap(self, x: Array) -> Array:
        """Any integers as residues."""
        return (x + self.half) % self.prime - self.half

    def wrap_sum(self, x: Array) -> Array:
        """Sums of two residues, of which each may be -inf."""
        if not hides(x):
            return self.wrap(x)
        return np.where(x <= HIDDEN, MINUS_INFINITY, self.wrap(x))

    def inverse(self, x: Array) -> Array:
        """The inverse of each residue: one inversion for all, by Montgomery's trick."""
        finite(x)
        flat: list[int] = x.ravel().tolist()
        prime = self.prime
        before = list(accumulate(flat, lambda a, b: a * b % prime, initial=1))
        if before[-1] == 0:
            raise Undefined("the inverse of 0")
        rest = pow(before[-1], -1, prime)
        numbers = [0] * len(flat)
        for place in range(len(flat) - 1, -1, -1):
            numbers[place] = rest * before[place] % prime
            rest = rest * flat[place] % prime
        return self.wrap(np.array(numbers, dtype=np.int64).reshape(x.shape))

    def number(self, value: float) -> int:
        """A real number: the fraction that it is."""
        return _number(value, self.prime)


@lru_cache(maxsize=4096)
def _number(value: float, prime: int) -> int:
    if value == float("-inf"):
        return MINUS_INFINITY
    fraction = as_fraction(value)
    if fraction.denominator % prime == 0:
        raise Undefined("the inverse of 0")
    residue = fraction.numerator * pow(fraction.denominator, -1, prime)
    return (residue + prime // 2) % prime - prime // 2


def as_fraction(value: float) -> Fraction:
    """A float as a fraction: the simple one that it was rounded from, else its shortest decimal.

    So a third is 1/3 whether a program divides by 3 or multiplies by 1/3, and 0.1 is 1/10.
    """
    simple = Fraction(value).limit_denominator(SIMPLE)
    if abs(float(simple) - value) <= ROUNDING * abs(value):
        return simple
    return Fraction(repr(value))


def hides(x: Array) -> bool:
    """Whether some of it is -inf."""
    return bool(x.min(initial=0) <= HIDDEN)


def finite(*arrays: Array) -> None:
    """Refuse -inf."""
    if any(map(hides, arrays)):
        raise Undefined("-inf where a number is needed")


# Sums of products of residues that no 64 bits overflow.


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
