"""Where a function finds the sizes it mentions: in shapes, by definition, or as a constant."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from xg.codegen.emit.names import spell_symbol
from xg.codegen.emit.sizes import spell_dim, spell_factor
from xg.codegen.errors import UnboundSize
from xg.diagnostics.diagnostic import DiagnosticError
from xg.diagnostics.lazy_dataclass import dataclass
from xg.diagnostics.source import Span
from xg.ir.dim import ONE, Dim, symbol
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
    *,
    by_definition: bool = False,
) -> SizeLines:
    """Lines for the needed symbols, in an order in which each can be computed.

    `known` are the texts of symbols that are available as numbers; `carried` those that arrays
    carry somewhere, so that a default must not replace them. An array that is to fit a definition,
    `by_definition`, does not tell what it defines.
    """
    texts = known or {}
    places = _places(sources, sizes)
    if by_definition:
        followed = [name for name in places if _follows(name, places, sizes)]
        places = {name: place for name, place in places.items() if name not in followed}
    needed = list(needed)
    needed += [n for name in needed if name in places for n in places[name].parts.symbols()]
    names, defined = closure(needed, {*places, *texts, *carried}, sizes)
    lines = SizeLines(_reads([name for name in names if name in places], sources, places), {})
    lines.lost = tuple(name for name in names if name in carried and name not in places)
    lines.lines += [f"{spell_symbol(name)} = {texts[name]}" for name in names if name in texts]
    for name in names:
        if name in places or name in texts or name in lines.lost or name in defined:
            continue
        if name not in sizes.defaults:
            raise DiagnosticError.of(UnboundSize(span, name))
        if sizes.defaults[name] == program_defaults.get(name):
            lines.constants[name] = sizes.defaults[name]
        else:
            lines.lines.append(f"{spell_symbol(name)} = {sizes.defaults[name]}")
    lines.lines += definition_lines(defined, sizes)
    return lines


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


def _follows(name: str, places: Collection[str], sizes: Sizes) -> bool:
    """Whether a symbol is defined by others that have places, or numbers of the file's."""
    if name not in sizes.definitions:
        return False
    parts = {*sizes.expand(symbol(name)).symbols()}
    return parts <= {*places, *sizes.defaults}


def closure(
    needed: Iterable[str], places: Collection[str], sizes: Sizes
) -> tuple[list[str], list[str]]:
    """All symbols needed, those of definitions included; and the defined ones in order.

    A symbol with a place needs no definition.
    """
    names: dict[str, None] = {}
    defined: dict[str, None] = {}
    stack = [(name, False) for name in reversed(list(needed))]
    while stack:
        name, ready = stack.pop()
        if ready:
            defined[name] = None
        elif name not in names:
            names[name] = None
            if name not in places and name in sizes.definitions:
                stack.append((name, True))
                parts = sizes.definition(name).symbols()
                stack.extend((part, False) for part in reversed(parts))
    return list(names), list(defined)


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
