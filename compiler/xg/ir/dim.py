"""Define exact sizes, and real numbers that are made of them.

A `Dim` is a Laurent polynomial in the symbols of a file, such as ``H*W/P^2 + 1``.

Two dims are the same size for every choice of their symbols exactly when they are equal as
polynomials, so equality is structural and nothing is ever evaluated to compare.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from fractions import Fraction
from functools import cache, lru_cache
from typing import Final

from xg.diagnostics.lazy_dataclass import dataclass, field
from xg.diagnostics.limits import DimTerms, NumberDigits, NumberParts, SizeFactors, spell_count

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


# Real numbers known before any tensor is: ``1/sqrt(D_h)``, ``0.1``, ``N_E/k``.
#
# A `Scalar` stays symbolic in the sizes it depends on, so that a generated module computes it from
# the sizes that its inputs carry.


FUNCTIONS: Final[Mapping[str, Callable[[float], float]]] = {
    "sqrt": math.sqrt,
    "exp": math.exp,
    "log": math.log,
}


class ScalarError(ArithmeticError):
    """A number that there is not: a root of -1, a division by 0, more than a float holds."""


@dataclass(frozen=True, slots=True)
class Scalar:
    """A number (`op` = "number"), a size ("size") or an operation on two or one of these.

    >>> from xg.ir.dim import symbol
    >>> scale = 1 / function("sqrt", size(symbol("D_h")))
    >>> str(scale), scale.evaluate({"D_h": 16})
    ('1/sqrt(D_h)', 0.25)
    """

    op: str
    args: tuple[Scalar, ...] = ()
    value: float | Dim = 0.0
    parts: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Count the operations: a number that is passed on from call to call can double in each."""
        parts = 1 + sum(arg.parts for arg in self.args)
        NumberParts.check(parts, None)
        object.__setattr__(self, "parts", parts)

    def __add__(self, other: Scalar | float) -> Scalar:
        return _combine("+", self, as_scalar(other))

    def __sub__(self, other: Scalar | float) -> Scalar:
        return _combine("-", self, as_scalar(other))

    def __mul__(self, other: Scalar | float) -> Scalar:
        return _combine("*", self, as_scalar(other))

    def __truediv__(self, other: Scalar | float) -> Scalar:
        return _combine("/", self, as_scalar(other))

    def __rtruediv__(self, other: float) -> Scalar:
        return as_scalar(other) / self

    def __rsub__(self, other: float) -> Scalar:
        return as_scalar(other) - self

    def __pow__(self, other: Scalar | float) -> Scalar:
        return _combine("^", self, as_scalar(other))

    def __neg__(self) -> Scalar:
        return as_scalar(-1.0) * self

    @property
    def constant(self) -> float | None:
        """The number this is, or None while a size is left."""
        return self.evaluate({}) if not self.symbols() else None

    @property
    def is_integral(self) -> bool:
        """Return whether it is an integer for all sizes: sizes and integers under +, - and *."""
        if self.op == "number":
            return isinstance(self.value, float) and self.value.is_integer()
        return self.op in ("size", "+", "-", "*") and all(arg.is_integral for arg in self.args)

    @property
    def is_positive(self) -> bool:
        """Whether this is surely more than 0, whatever the sizes are."""
        if self.op == "number":
            return isinstance(self.value, float) and self.value > 0
        if self.op == "size":
            return isinstance(self.value, Dim) and not self.value.may_be_negative
        first = all(arg.is_positive for arg in self.args[:1])
        return {"exp": True, "sqrt": first, "^": first}.get(
            self.op, self.op in "+*/" and all(arg.is_positive for arg in self.args)
        )

    def as_dim(self) -> Dim:
        """The same number as a size; it has to be whole."""
        if self.op == "number":
            assert isinstance(self.value, float)
            return number(int(self.value))
        if self.op == "size":
            assert isinstance(self.value, Dim)
            return self.value
        left, right = (arg.as_dim() for arg in self.args)
        return left + right if self.op == "+" else left - right if self.op == "-" else left * right

    def dims(self) -> tuple[Dim, ...]:
        """Every size this number depends on."""
        if isinstance(self.value, Dim):
            return (self.value,)
        return tuple(dim for arg in self.args for dim in arg.dims())

    def symbols(self) -> tuple[str, ...]:
        """Return the symbols of its sizes, each once, in alphabetical order."""
        return tuple(sorted({name for dim in self.dims() for name in dim.symbols()}))

    def divisors(self) -> Iterator[Dim]:
        """Every size that this number is divided by: none of them may be 0."""
        below = self.args[1:] if self.op == "/" else ()
        power = self.args[1].constant if self.op == "^" else None
        if power is not None and power < 0:
            below = self.args[:1]
        for arg in below:
            yield from arg.dims() if arg.vanishes else ()
        for arg in self.args:
            yield from arg.divisors()

    @property
    def vanishes(self) -> bool:
        """Whether this is 0 if one of its sizes is: a product or a root of sizes."""
        if self.op == "size":
            return True
        return self.op in ("*", "sqrt") and any(arg.vanishes for arg in self.args)

    def substitute(self, values: Mapping[str, Dim]) -> Scalar:
        """This number with symbols replaced, all at once."""
        if isinstance(self.value, Dim):
            return size(self.value.substitute(values))
        return Scalar(self.op, tuple(arg.substitute(values) for arg in self.args), self.value)

    def evaluate(self, sizes: Mapping[str, int]) -> float:
        """The number this is for `sizes`."""
        if self.op == "number":
            assert isinstance(self.value, float)
            return self.value
        if self.op == "size":
            assert isinstance(self.value, Dim)
            return _float(self.value, sizes)
        args = [arg.evaluate(sizes) for arg in self.args]
        return _computed(self.op, *args)

    def __str__(self) -> str:
        return self.spell(lambda dim: str(dim), lambda name, arg: f"{name}({arg})", power="^")

    def spell(
        self,
        spell_size: Callable[[Dim], str],
        spell_function: Callable[[str, str], str],
        power: str,
    ) -> str:
        """This number as text, sizes, functions and powers in the words of some language."""
        if self.op == "number":
            assert isinstance(self.value, float)
            return spell_number(self.value)
        if self.op == "size":
            assert isinstance(self.value, Dim)
            return spell_size(self.value)
        args = [arg.spell(spell_size, spell_function, power) for arg in self.args]
        if self.op in FUNCTIONS:
            return spell_function(self.op, args[0])
        left = _wrap(args[0], self.args[0], self.op, right=False)
        right = _wrap(args[1], self.args[1], self.op, right=True)
        if self.op == "^":
            return f"{left}{power}{right}"
        return f"{left} {self.op} {right}" if self.op in "+-" else f"{left}{self.op}{right}"


def as_scalar(value: Scalar | float) -> Scalar:
    """A scalar, also from a plain number."""
    return value if isinstance(value, Scalar) else Scalar("number", (), float(value))


def size(dim: Dim) -> Scalar:
    """A size as a real number."""
    constant = dim.constant
    return Scalar("size", (), dim) if constant is None else as_scalar(constant)


def function(name: str, argument: Scalar) -> Scalar:
    """`sqrt`, `exp` or `log` of a number."""
    if argument.op == "number":
        return as_scalar(_computed(name, argument.evaluate({})))
    return Scalar(name, (argument,))


def spell_number(value: float) -> str:
    """A float in the shortest form that reads back the same, whole numbers without a point."""
    return str(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)


def _combine(op: str, left: Scalar, right: Scalar) -> Scalar:
    if left.op == right.op == "number":
        return as_scalar(_computed(op, left.evaluate({}), right.evaluate({})))
    if op == "*" and left == as_scalar(1.0):
        return right
    return Scalar(op, (left, right))


def _float(dim: Dim, sizes: Mapping[str, int]) -> float:
    try:
        return float(dim.evaluate(sizes))
    except OverflowError:
        raise ScalarError(f"{dim} is more than a float holds") from None


def _computed(op: str, *args: float) -> float:
    """Compute an operation on numbers; raises ScalarError if it has no finite result."""
    try:
        result = FUNCTIONS[op](args[0]) if op in FUNCTIONS else _apply(op, *args)
    except (ArithmeticError, ValueError):
        result = math.nan
    if math.isfinite(result):
        return result
    spelled = [spell_number(arg) for arg in args]
    text = f"{op}({spelled[0]})" if op in FUNCTIONS else f" {op} ".join(spelled)
    raise ScalarError(f"{text} is not a finite number")


def _apply(op: str, left: float, right: float) -> float:
    match op:
        case "+":
            return left + right
        case "-":
            return left - right
        case "*":
            return left * right
        case "/":
            return left / right
        case _:
            return math.pow(left, right)  # a root of a negative number is an error, not complex


_BINDING: Final = {"+": 1, "-": 1, "*": 2, "/": 2, "^": 3}


def _wrap(text: str, inner: Scalar, outer: str, *, right: bool) -> str:
    if inner.op == "size":
        assert isinstance(inner.value, Dim)
        strength = 9 if inner.value.name else 1
    elif inner.op == "number":
        strength = 1 if text.startswith("-") else 9
    else:
        strength = _BINDING.get(inner.op, 9)
    weak = strength < _BINDING[outer] or (right and strength == _BINDING[outer])
    return f"({text})" if weak else text
