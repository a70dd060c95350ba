"""Exact sizes: a `Dim` is a Laurent polynomial in the symbols of a file, such as ``H*W/P^2 + 1``.

Two dims are the same size for every choice of their symbols exactly when they are equal as
polynomials, so equality is structural and nothing is ever evaluated to compare.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fractions import Fraction
from functools import cache, lru_cache

from xg.diagnostics.lazy_dataclass import dataclass, field
from xg.diagnostics.limits import DimTerms, NumberDigits, SizeFactors, spell_count

Monomial = tuple[tuple[str, int], ...]
Coefficient = int | Fraction
UNIT: Monomial = ()
LARGEST = 10**NumberDigits.maximum
REMEMBERED = 4_096  # sums, products and quotients of sizes: a program has few, many times over


class DimError(ArithmeticError):
    """A size that is not a whole number, or a division by zero or that leaves the polynomials."""


class SumDivides(DimError):
    """A division of a size by a sum."""


@dataclass(frozen=True, slots=True)
class Dim:
    """A size. `terms` maps monomials (sorted) to coefficients, none of them zero.

    A whole coefficient is an int: sizes are made and compared all the time, and fractions are slow.

    >>> D, N_H = symbol("D"), symbol("N_H")
    >>> str(D / N_H * 3), D / N_H * N_H == D
    ('3*D/N_H', True)
    """

    terms: tuple[tuple[Monomial, Coefficient], ...]
    _hash: int = field(init=False, repr=False, compare=False)

    def __hash__(self) -> int:
        try:
            return self._hash
        except AttributeError:  # asked for often, of dims that live long
            object.__setattr__(self, "_hash", hash(self.terms))
            return self._hash

    def __add__(self, other: Dim | int) -> Dim:
        return _sum(self, other if isinstance(other, Dim) else number(other))

    def __sub__(self, other: Dim | int) -> Dim:
        return self + as_dim(other) * -1

    def __mul__(self, other: Dim | int) -> Dim:
        return _product(self, other if isinstance(other, Dim) else number(other))

    def __truediv__(self, other: Dim | int) -> Dim:
        return _quotient(self, other if isinstance(other, Dim) else number(other))

    def __pow__(self, power: int) -> Dim:
        if power == 1:  # most are
            return self
        if power < 0:
            return ONE / self ** (-power)
        if self.constant is None:
            SizeFactors.check(power, None)
        result, square = ONE, self
        while power:
            if power % 2:
                result = result * square
            power //= 2
            square = square * square if power else square
        return result

    @property
    def constant(self) -> int | None:
        """The number this dim is, or None while a symbol is left."""
        if not self.terms:
            return 0
        ((monomial, coefficient), *rest) = self.terms
        if rest or monomial or coefficient.denominator != 1:
            return None
        return int(coefficient)

    @property
    def name(self) -> str | None:
        """The symbol this dim is, or None."""
        if len(self.terms) == 1 and self.terms[0][1] == 1:
            monomial = self.terms[0][0]
            if len(monomial) == 1 and monomial[0][1] == 1:
                return monomial[0][0]
        return None

    @property
    def may_be_negative(self) -> bool:
        """Whether some term is subtracted, as in S - 2."""
        return any(coefficient < 0 for _, coefficient in self.terms)

    def symbols(self) -> tuple[str, ...]:
        """Every symbol once, in alphabetical order."""
        return tuple(sorted({name for monomial, _ in self.terms for name, _ in monomial}))

    def substitute(self, values: Mapping[str, Dim]) -> Dim:
        """This dim with symbols replaced, all at once."""
        if not any(name in values for monomial, _ in self.terms for name, _ in monomial):
            return self
        if self.name is not None:
            return values[self.name]
        total = ZERO
        for monomial, coefficient in self.terms:
            term = Dim(((UNIT, coefficient),))
            for name, power in monomial:
                factor = values.get(name) or symbol(name)
                term = term * factor**power
            total = total + term
        return total

    def evaluate(self, sizes: Mapping[str, int]) -> int:
        """The whole number this dim is for `sizes`; DimError names what does not divide."""
        total: int | Fraction = 0
        for monomial, coefficient in self.terms:
            above, below = coefficient.numerator, coefficient.denominator
            for name, power in monomial:
                if power > 0:
                    above *= sizes[name] ** power
                elif sizes[name]:
                    below *= sizes[name] ** -power
                else:
                    raise DimError(f"{self} divides by zero")
            # Most are whole by themselves, and numbers are faster than fractions.
            total += Fraction(above, below) if above % below else above // below
        if total.denominator != 1:
            whole, parts = (spell_count(n) for n in (total.numerator, total.denominator))
            raise DimError(f"{self} = {whole}/{parts} is not a whole number")
        return int(total)

    def __repr__(self) -> str:
        return str(self)

    def __str__(self) -> str:
        if not self.terms:
            return "0"
        parts = [_term(monomial, coefficient) for monomial, coefficient in self.terms]
        return " + ".join(parts).replace("+ -", "- ")


def symbol(name: str) -> Dim:
    """The dim that is one symbol."""
    return _symbol(name)


def number(value: int) -> Dim:
    """The dim that is one number."""
    return Dim(((UNIT, value),)) if value else ZERO


def as_dim(value: Dim | int) -> Dim:
    """A dim, also from a plain number."""
    return value if isinstance(value, Dim) else number(value)


def product(dims: Iterable[Dim]) -> Dim:
    """The product, 1 for none: the number of elements of a shape."""
    result = ONE
    for dim in dims:
        result = result * dim
    return result


@cache
def _symbol(name: str) -> Dim:
    return Dim(((((name, 1),), 1),))


@lru_cache(REMEMBERED)
def _sum(a: Dim, b: Dim) -> Dim:
    return _normal([*a.terms, *b.terms])


@lru_cache(REMEMBERED)
def _product(a: Dim, b: Dim) -> Dim:
    if b == ONE:
        return a
    return _normal((_times(m, n), x * y) for m, x in a.terms for n, y in b.terms)


@lru_cache(REMEMBERED)
def _quotient(dividend: Dim, divisor: Dim) -> Dim:
    if not divisor.terms:
        raise DimError("cannot divide by 0")
    if divisor == dividend:
        return ONE
    if len(divisor.terms) != 1:
        if (quotient := _exact_quotient(dividend, divisor)) is None:
            raise SumDivides(f"cannot divide by {divisor}: only products divide")
        return quotient
    ((monomial, coefficient),) = divisor.terms
    inverse = tuple((name, -power) for name, power in monomial)
    return dividend * Dim(((inverse, _normalize(Fraction(1) / coefficient)),))


def _exact_quotient(dividend: Dim, divisor: Dim) -> Dim | None:
    """Divide by a sum, or return None if that leaves a rest: 2*(S + 1) by S + 1 is 2."""
    names = sorted({*dividend.symbols(), *divisor.symbols()})

    def leading(dim: Dim) -> Dim:
        powers = [tuple(dict(monomial).get(name, 0) for name in names) for monomial, _ in dim.terms]
        return Dim((dim.terms[powers.index(max(powers))],))

    rest, quotient = dividend, ZERO
    for _ in range(len(dividend.terms) + len(divisor.terms)):  # without an end if it is none
        if not rest.terms:
            break
        part = leading(rest) / leading(divisor)
        rest, quotient = rest - part * divisor, quotient + part
    return None if rest.terms else quotient


def _times(a: Monomial, b: Monomial) -> Monomial:
    if not a or not b:
        return a or b
    powers = dict(a)
    for name, power in b:
        powers[name] = powers.get(name, 0) + power
    factors = sum(map(abs, powers.values()))
    if factors > SizeFactors.maximum:
        SizeFactors.check(factors, None)
    return tuple(sorted((name, power) for name, power in powers.items() if power))


def _normal(terms: Iterable[tuple[Monomial, Coefficient]]) -> Dim:
    sums: dict[Monomial, Coefficient] = {}
    for monomial, coefficient in terms:
        sums[monomial] = sums.get(monomial, 0) + coefficient
    monomials = [(monomial, _normalize(value)) for monomial, value in sums.items() if value]
    if len(monomials) > 1:
        DimTerms.check(len(monomials), None)
        monomials.sort(key=lambda term: (-len(term[0]), term[0]))
    return Dim(tuple(monomials))


def _normalize(value: Coefficient) -> Coefficient:
    """Return the same number, as an int if it is one; refuse one with too many digits."""
    if not -LARGEST < value.numerator < LARGEST or value.denominator >= LARGEST:
        longest = max(abs(value.numerator), value.denominator)
        NumberDigits.check(int(longest.bit_length() * 0.30103) + 1, None)
    return value.numerator if value.denominator == 1 else value


def _term(monomial: Monomial, coefficient: Coefficient) -> str:
    # Counts precede sizes, as people write them: N_H*D_h, not D_h*N_H.
    ordered = sorted(monomial, key=lambda factor: (not factor[0].startswith("N_"), factor[0]))
    above = [_power(name, power) for name, power in ordered if power > 0]
    below = [_power(name, -power) for name, power in ordered if power < 0]
    if abs(coefficient.numerator) != 1 or not above:
        above.insert(0, str(coefficient.numerator))
    elif coefficient.numerator == -1:
        above[0] = "-" + above[0]
    if coefficient.denominator != 1:
        below.insert(0, str(coefficient.denominator))
    text = "*".join(above)
    if not below:
        return text
    return f"{text}/{below[0]}" if len(below) == 1 else f"{text}/({'*'.join(below)})"


def _power(name: str, power: int) -> str:
    return name if power == 1 else f"{name}^{power}"


ZERO = Dim(())
ONE = Dim(((UNIT, 1),))
