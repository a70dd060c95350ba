"""Where a function finds the sizes it mentions: in shapes, by definition, or as a constant.

A size that no axis has by itself, and that has no number, may follow from the formula of one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from xg.codegen.emit.names import spell_symbol
from xg.codegen.emit.sizes import spell_dim, spell_factor, spell_implied
from xg.diagnostics.diagnostic import DiagnosticError
from xg.diagnostics.lazy_dataclass import dataclass
from xg.diagnostics.source import Span
from xg.ir.dim import ONE, Dim, symbol
from xg.ir.errors import UnboundSize
from xg.ir.known_sizes import ImpliedSize, closure, implied_sizes
from xg.ir.tensor import Shape, Sizes

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
    _number(lines, [name for name in names if name not in settled], sizes, program_defaults, span)
    arrays = [text for text, _ in (*sources, *inner)]
    for name in computed:
        if (size := found.follows.get(name)) is None:
            lines.lines += definition_lines([name], sizes)
        else:
            lines.lines.append(f"{spell_symbol(name)} = {spell_implied(size, arrays[size.index])}")
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


def _number(
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
    """The places but for those of symbols whose definitions are known by the others."""
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
