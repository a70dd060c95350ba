"""Sizes as integer expressions of the target language, and where a function finds each symbol."""

from __future__ import annotations

from math import lcm

from xg.codegen.emit.names import spell_symbol
from xg.codegen.emit.text import Precedence, Text, infix, power
from xg.ir.dim import ONE, ZERO, Dim, product, symbol
from xg.ir.known_sizes import ImpliedSize
from xg.ir.scalar import Scalar, spell_number
from xg.ir.tensor import Shape, Sizes, spell_shape


def spell_dim(dim: Dim) -> Text:
    """A size in whole numbers: ``D // N_H``, ``N_P + 1``. Divisions are exact by meaning."""
    denominator = denominator_of(dim)
    if len(dim.terms) > 1 and denominator.constant != 1 and not _one_fraction(dim):
        return infix(spell_dim(dim * denominator), "//", spell_dim(denominator), Precedence.PRODUCT)
    if not dim.terms:
        return Text("0")
    total: Text | None = None
    for term in dim.terms:
        positive = term[1] > 0
        text = _term(Dim(((term[0], abs(term[1])),)))
        if total is None:
            total = (
                text if positive else Text(f"-{text.in_context(Precedence.SIGN)}", Precedence.SIGN)
            )
        else:
            total = infix(total, "+" if positive else "-", text, Precedence.SUM)
    assert total is not None
    return total


def spell_factor(dim: Dim) -> str:
    """A size behind a ``*``."""
    return spell_dim(dim).in_context(Precedence.PRODUCT)


def spell_implied(size: ImpliedSize, array: str) -> str:
    """A size by the length of an axis that is no size by itself: ``X.shape[0] // 2``."""
    length = Text(f"{array}.shape[{size.axis}]")
    scale = denominator_of(size.rest)  # T of [(T + 1)/2] is 2*length - 1: 1/2 is no whole number
    parts, rest, factor = size.parts * scale, size.rest * scale, size.factor * scale
    if parts != ONE:
        length = infix(length, "*", spell_dim(parts), Precedence.PRODUCT)
    if rest != ZERO:
        adds = spell_dim(rest).text.startswith("-")
        rest = spell_dim(rest * -1 if adds else rest)
        length = infix(length, "+" if adds else "-", rest, Precedence.SUM)
    below = denominator_of(factor)
    if below != ONE:
        length = infix(length, "*", spell_dim(below), Precedence.PRODUCT)
    if (above := factor * below) != ONE:
        length = infix(length, "//", spell_dim(above), Precedence.PRODUCT)
    return length.text


def _term(dim: Dim) -> Text:
    ((monomial, coefficient),) = dim.terms
    ordered = sorted(monomial, key=lambda factor: (not factor[0].startswith("N_"), factor[0]))
    above = [_power(name, exponent) for name, exponent in ordered if exponent > 0]
    below = [_power(name, -exponent) for name, exponent in ordered if exponent < 0]
    if coefficient.numerator != 1 or not above:
        above.insert(0, Text(str(coefficient.numerator)))
    if coefficient.denominator != 1:
        below.insert(0, Text(str(coefficient.denominator)))
    text = _product(above)
    return infix(text, "//", _product(below), Precedence.PRODUCT) if below else text


def _product(factors: list[Text]) -> Text:
    text = factors[0]
    for factor in factors[1:]:
        text = infix(text, "*", factor, Precedence.PRODUCT)
    return text


def _power(name: str, exponent: int) -> Text:
    variable = Text(spell_symbol(name))
    return variable if exponent == 1 else power(variable, Text(str(exponent)))


def denominator_of(dim: Dim) -> Dim:
    """The smallest product by which a size has no division left."""
    powers: dict[str, int] = {}
    for monomial, _ in dim.terms:
        for name, exponent in monomial:
            powers[name] = max(powers.get(name, 0), -exponent)
    number = lcm(*(coefficient.denominator for _, coefficient in dim.terms))
    return product(symbol(name) ** exponent for name, exponent in powers.items()) * number


def _one_fraction(dim: Dim) -> bool:
    """Whether a single term divides: then the others being whole, it is whole too."""
    fractions = [
        term
        for term in dim.terms
        if term[1].denominator != 1 or any(exponent < 0 for _, exponent in term[0])
    ]
    return len(fractions) == 1


def spell_scalar(scalar: Scalar, sizes: Sizes) -> Text:
    """A real number: ``1 / D_h**0.5``. Roots are powers, so that no library is needed."""
    match scalar.op:
        case "number":
            assert isinstance(scalar.value, float)
            return _number(scalar.value)
        case "size":
            assert isinstance(scalar.value, Dim)
            return spell_dim(sizes.computed(scalar.value))
        case "sqrt":
            return power(spell_scalar(scalar.args[0], sizes), Text("0.5"))
        case "exp" | "log":
            return Text(f"math.{scalar.op}({spell_scalar(scalar.args[0], sizes).text})")
        case "^":
            return power(spell_scalar(scalar.args[0], sizes), spell_scalar(scalar.args[1], sizes))
        case _:
            left, right = (spell_scalar(arg, sizes) for arg in scalar.args)
            binding = Precedence.SUM if scalar.op in "+-" else Precedence.PRODUCT
            return infix(left, scalar.op, right, binding)


def _number(value: float) -> Text:
    if value in (float("inf"), float("-inf")):
        return Text(f'float("{value}")')
    return Text(spell_number(value), Precedence.SIGN if value < 0 else Precedence.ATOM)


def shape_text(shape: Shape, sizes: Sizes) -> str:
    """A shape as a comment says it, in the file's symbols: ``[B, S, D]``."""
    return spell_shape(sizes.fold_shape(shape))
