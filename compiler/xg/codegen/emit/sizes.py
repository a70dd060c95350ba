"""Write sizes as integer expressions, and find where a function reads each symbol."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from math import lcm

from xg.codegen.emit.names import spell_symbol
from xg.codegen.emit.text import Precedence, Text, infix, power
from xg.diagnostics.diagnostic import DiagnosticError, Span
from xg.diagnostics.lazy_dataclass import dataclass
from xg.ir.dim import ONE, ZERO, Dim, Scalar, product, spell_number, symbol
from xg.ir.errors import UnboundSize
from xg.ir.size_checks import ImpliedSize, closure, implied_sizes
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
    """Spell a size as the right operand of ``*``."""
    return spell_dim(dim).in_context(Precedence.PRODUCT)


def spell_implied_size(size: ImpliedSize, array: str) -> str:
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
            return spell_dim(sizes.fold_exactly(scalar.value))
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


# Where a function finds the sizes it mentions: in shapes, by definition, or as a constant.
#
# A size that no axis has by itself, and that has no number, may follow from the formula of one.


Source = tuple[str, Shape]  # the text of a tensor and its (expanded) shape


@dataclass(slots=True)
class SizeLines:
    """Lines that make sizes known, and the module constants that they rely on.

    `lost` are symbols that shapes carried once, but none of the available tensors does.
    """

    lines: list[str]
    constants: dict[str, int]
    lost: tuple[str, ...] = ()


def locate(
    needed: Iterable[str],
    sources: Sequence[Source],
    sizes: Sizes,
    program_defaults: Mapping[str, int],
    span: Span,
    known: Mapping[str, str] | None = None,
    carried: frozenset[str] = frozenset(),
    implied: frozenset[str] = frozenset(),
    inner: Sequence[Source] = (),
    *,
    by_definition: bool = False,
) -> SizeLines:
    """Lines for the needed symbols, in an order in which each can be computed.

    `known` are the texts of symbols that are available as numbers; `carried` those that arrays
    carry somewhere, so that a default must not replace them; `implied` those without a number
    that follow from arrays somewhere. The `inner` sources are asked for such symbols alone. An
    array that is to fit a definition, `by_definition`, does not tell what it defines.
    """
    texts = known or {}
    found = _found(needed, sources, inner, sizes, texts, carried, by_definition=by_definition)
    places, names, computed = found.places, found.names, found.computed
    lines = SizeLines(_reads([name for name in names if name in places], sources, places), {})
    lost = {*carried, *(implied - found.follows.keys())} - places.keys()
    lines.lost = tuple(name for name in names if name in lost and name not in computed)
    lines.lines += [f"{spell_symbol(name)} = {texts[name]}" for name in names if name in texts]
    settled = {*places, *texts, *lines.lost, *computed}
    _set_constants(
        lines, [name for name in names if name not in settled], sizes, program_defaults, span
    )
    arrays = [text for text, _ in (*sources, *inner)]
    for name in computed:
        if (size := found.follows.get(name)) is None:
            lines.lines += definition_lines([name], sizes)
        else:
            lines.lines.append(
                f"{spell_symbol(name)} = {spell_implied_size(size, arrays[size.index])}"
            )
    return lines


@dataclass(frozen=True, slots=True)
class _Found:
    """The symbols that are needed: those with places in arrays, and the computed ones in order.

    Of these the ones that an array implies are in `follows`, the others have definitions.
    """

    places: Mapping[str, _SizeSource]
    names: list[str]
    computed: list[str]
    follows: Mapping[str, ImpliedSize]


def _found(
    needed: Iterable[str],
    sources: Sequence[Source],
    inner: Sequence[Source],
    sizes: Sizes,
    texts: Mapping[str, str],
    carried: frozenset[str],
    *,
    by_definition: bool,
) -> _Found:
    places = _places(sources, sizes)
    if by_definition:
        places = _without_followers(places, (), sizes)
    needed = list(needed)
    needed += [n for name in needed if name in places for n in places[name].parts.symbols()]
    names, computed = closure(needed, {*places, *texts, *carried}, sizes)
    numbers = sizes.defaults.keys() - carried
    if {*places, *texts, *carried, *computed, *numbers}.issuperset(names):
        return _Found(places, names, computed, {})
    shapes = [shape for _, shape in (*sources, *inner)]
    follows = implied_sizes(shapes, sizes, {*places, *texts, *numbers})
    if by_definition:
        places = _without_followers(places, follows, sizes)
    names, computed = closure(needed, {*places, *texts, *carried}, sizes, follows)
    return _Found(places, names, computed, follows)


def _set_constants(
    lines: SizeLines,
    names: Iterable[str],
    sizes: Sizes,
    program_defaults: Mapping[str, int],
    span: Span,
) -> None:
    """Make known what has a number in the file, or of its own in a block."""
    for name in names:
        if name not in sizes.defaults:
            raise DiagnosticError.of(UnboundSize(span, name))
        if sizes.defaults[name] == program_defaults.get(name):
            lines.constants[name] = sizes.defaults[name]
        else:
            lines.lines.append(f"{spell_symbol(name)} = {sizes.defaults[name]}")


def definition_lines(names: Iterable[str], sizes: Sizes) -> list[str]:
    """``D_h = D // N_H`` for every name."""
    return [f"{spell_symbol(n)} = {spell_dim(sizes.definition(n)).text}" for n in names]


@dataclass(frozen=True, slots=True)
class _SizeSource:
    """Where a symbol can be read: a tensor and its axis, which on a rank is one of `parts`."""

    index: int
    axis: int
    parts: Dim


def _places(sources: Sequence[Source], sizes: Sizes) -> dict[str, _SizeSource]:
    """For each symbol the first tensor and axis that carry it, the whole of it if one does."""
    candidates = [
        (name, _SizeSource(index, axis, parts))
        for index, (_, shape) in enumerate(sources)
        for axis, dim in enumerate(shape)
        for name, parts in [sizes.symbol_and_divisors(dim)]
        if name is not None
    ]
    places: dict[str, _SizeSource] = {}
    for name, place in sorted(candidates, key=lambda one: one[1].parts != ONE):
        places.setdefault(name, place)
    return places


def read_in_part(sources: Sequence[Source], sizes: Sizes) -> list[Dim]:
    """The sizes that a rank reads as they are, and whole ones off them."""
    places = _places(sources, sizes)
    return [symbol(name) / place.parts for name, place in places.items() if place.parts != ONE]


def _without_followers(
    places: Mapping[str, _SizeSource], implied: Collection[str], sizes: Sizes
) -> dict[str, _SizeSource]:
    """Drop the places of symbols that are defined by other known symbols."""
    known = {*places, *implied, *sizes.defaults}
    return {
        name: place
        for name, place in places.items()
        if name not in sizes.definitions
        or not known.issuperset(sizes.expand(symbol(name)).symbols())
    }


def _reads(
    names: Sequence[str], sources: Sequence[Source], places: Mapping[str, _SizeSource]
) -> list[str]:
    """One line per tensor that carries needed sizes, and one for each that is carried in part."""
    by_source: dict[int, dict[int, str]] = {}
    parts: list[str] = []
    for name in names:
        place = places[name]
        if place.parts == ONE:
            by_source.setdefault(place.index, {})[place.axis] = spell_symbol(name)
        else:
            length = f"{sources[place.index][0]}.shape[{place.axis}]"
            parts.append(f"{spell_symbol(name)} = {length} * {spell_factor(place.parts)}")
    lines: list[str] = []
    for index in sorted(by_source):
        text, shape = sources[index]
        axes = by_source[index]
        if sorted(axes) == list(range(len(axes))) and len(axes) > 1:
            part = "" if len(axes) == len(shape) else f"[:{len(axes)}]"
            lines.append(f"{', '.join(axes[i] for i in sorted(axes))} = {text}.shape{part}")
        else:
            lines += [f"{axes[axis]} = {text}.shape[{axis}]" for axis in sorted(axes)]
    return [*lines, *parts]
