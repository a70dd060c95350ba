"""Residues: numbers represent exact fractions, and nothing overflows."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest

from xg.verify.reference.residues import (
    MINUS_INFINITY,
    POSITIVE,
    PRIMES,
    Field,
    Undefined,
    as_fraction,
    contract,
    exponential,
    mix,
)

FIELDS = [Field(prime) for prime in PRIMES]


def is_prime(n: int) -> bool:
    return all(n % d for d in range(2, math.isqrt(n) + 1))


def test_the_primes_are_the_largest_that_fit() -> None:
    bounds = [2**31, *PRIMES]
    for above, prime in pairwise(bounds):
        assert is_prime(prime)
        assert not any(is_prime(n) for n in range(prime + 1, above))


def residues(field: Field, *shape: int, seed: int = 0) -> np.ndarray:
    """Random residues, the two extreme ones among them."""
    drawn = np.random.default_rng(seed).integers(-field.half, field.half, shape, endpoint=True)
    drawn.flat[0], drawn.flat[-1] = field.half, -field.half
    return drawn


@pytest.mark.parametrize("field", FIELDS)
def test_inverses(field: Field) -> None:
    x = residues(field, 40, 5)
    assert not (x == 0).any()
    assert (field.wrap(x * field.inverse(x)) == 1).all()
    assert field.inverse(np.asarray(1)) == 1
    assert field.inverse(np.zeros((2, 0), np.int64)).shape == (2, 0)


def test_zero_has_no_inverse() -> None:
    for wrong in (0, MINUS_INFINITY):
        with pytest.raises(Undefined):
            FIELDS[0].inverse(np.array([3, wrong, 5]))


@pytest.mark.parametrize(
    ("value", "fraction"),
    [
        (3.0, Fraction(3)),
        (-0.5, Fraction(-1, 2)),
        (0.1, Fraction(1, 10)),
        (1e-5, Fraction(1, 100_000)),
        (1 / 3, Fraction(1, 3)),
        (1 / (1 - 0.1), Fraction(10, 9)),
        (1 / (6 * 1009), Fraction(1, 6054)),
        (2**-0.5, Fraction("0.7071067811865476")),
        (1e-38, Fraction(1, 10**38)),
    ],
)
def test_numbers_are_fractions(value: float, fraction: Fraction) -> None:
    assert as_fraction(value) == fraction
    for field in FIELDS:
        found = field.number(value)
        assert abs(found) <= field.half
        assert (found * fraction.denominator - fraction.numerator) % field.prime == 0


@pytest.mark.parametrize("field", FIELDS)
@pytest.mark.parametrize(
    ("spec", "left", "right"),
    [
        ("ik,kj->ij", (3, 2), (2, 5)),
        ("ik,kj->ij", (3, 40), (40, 5)),
        ("bsi,bsj->ij", (7, 90, 11), (7, 90, 3)),
        ("bhqd,bhkd->bhqk", (2, 3, 16, 17), (2, 3, 19, 17)),
        ("bqhd,bhkq->dbk", (2, 16, 3, 17), (2, 3, 19, 16)),
        ("i,j->ij", (3,), (4,)),
        ("ik,k->", (3, 2000), (2000,)),
        ("k,k->", (0,), (0,)),
    ],
)
def test_contractions_do_not_overflow(
    field: Field, spec: str, left: tuple[int, ...], right: tuple[int, ...]
) -> None:
    a, b = residues(field, *left) if 0 not in left else np.zeros(left, np.int64), None
    b = residues(field, *right, seed=1) if 0 not in right else np.zeros(right, np.int64)
    # The largest residue everywhere is the worst case of every bound.
    for x, y in ((a, b), (np.full_like(a, field.half), np.full_like(b, -field.half))):
        exact = np.einsum(spec, x.astype(object), y.astype(object))
        assert np.array_equal(contract(field, spec, x, y), field.wrap(exact))


def test_exponentials_are_positive_and_zero_of_minus_infinity() -> None:
    x = residues(FIELDS[0], 1000)
    e = exponential(FIELDS[0], x)
    assert e.min() >= 1
    assert e.max() <= POSITIVE
    assert FIELDS[0].half >= 1023 * POSITIVE
    assert exponential(FIELDS[0], np.asarray(MINUS_INFINITY)) == 0


def test_functions_mix() -> None:
    """Equal inputs give equal results; other names and other numbers do not; nothing is linear."""
    x = residues(FIELDS[0], 1000)
    y = mix(FIELDS[0], "tanh", x)
    assert np.array_equal(y, mix(FIELDS[0], "tanh", x.copy()))
    assert not (y == mix(FIELDS[0], "erf", x)).any()
    assert len(set(y.tolist())) == len(set(x.tolist()))
    assert np.abs(y).max() <= FIELDS[0].half
    double = mix(FIELDS[0], "tanh", FIELDS[0].wrap(2 * x))
    assert not (double == FIELDS[0].wrap(2 * y)).any()
    with pytest.raises(Undefined):
        mix(FIELDS[0], "log", np.array([MINUS_INFINITY]))
