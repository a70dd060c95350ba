"""The sizes that shapes of arrays say, and those that follow from others.

An axis of 2*T says how large T is, and one of N + k - 1 how large N is where k is known.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from xg.diagnostics.lazy_dataclass import dataclass
from xg.ir.dim import ONE, ZERO, Dim, DimError, number, symbol
from xg.ir.tensor import Shape, Sizes


@dataclass(frozen=True, slots=True)
class ImpliedSize:
    """A size by the length of an axis: (length * parts - rest) / factor.

    `index` counts the shapes, `axis` the axes of that shape; of a rank's axis there are `parts`.
    """

    index: int
    axis: int
    parts: Dim
    rest: Dim
    factor: Dim

    def of(self, length: int, numbers: Mapping[str, int]) -> int | None:
        """The size where the axis has this length; None if there is none, or one is unknown."""
        if not numbers.keys() >= {*self.symbols()}:
            return None
        try:
            return ((number(length) * self.parts - self.rest) / self.factor).evaluate(numbers)
        except DimError:
            return None

    def symbols(self) -> tuple[str, ...]:
        """The sizes that must be known before."""
        dims = (self.parts, self.rest, self.factor)
        return tuple(dict.fromkeys(name for dim in dims for name in dim.symbols()))


def implied_sizes(
    shapes: Sequence[Shape], sizes: Sizes, known: Collection[str]
) -> dict[str, ImpliedSize]:
    """The sizes beyond those `known` that shapes imply, each behind those that it needs.

    An axis of D_h says how large that is, also where nothing says so of D and N_H in D/N_H.
    """
    axes = [
        (index, axis, *sizes.undivided(sizes.expand(dim)))
        for index, shape in enumerate(shapes)
        for axis, dim in enumerate(shape)
    ]
    found: dict[str, ImpliedSize] = {}
    growing = True
    while growing:
        growing = False
        for index, axis, whole, parts in axes:
            open_ = [n for n in whole.symbols() if n not in known and n not in found]
            if len(open_) == 1 and (factor := _factor(whole, open_[0])) is not None:
                rest = whole - symbol(open_[0]) * factor
                found[open_[0]] = ImpliedSize(index, axis, parts, rest, factor)
                growing = True
    for index, axis, whole, parts in axes:
        name = sizes.fold(whole).name
        if name is None or name in known or name in found or name not in sizes.definitions:
            continue
        if not {*known, *found}.issuperset(whole.symbols()):
            found[name] = ImpliedSize(index, axis, parts, ZERO, ONE)
    return found


def _factor(dim: Dim, name: str) -> Dim | None:
    """The other factor of the only term that has a symbol, if that is no power of it."""
    terms = [term for term in dim.terms if any(each == name for each, _ in term[0])]
    if len(terms) != 1:
        return None
    factor = Dim((terms[0],)) / symbol(name)
    return None if name in factor.symbols() else factor


def axis_symbols(shapes: Iterable[Shape], sizes: Sizes) -> frozenset[str]:
    """The symbols that are an axis by themselves, or of which an axis is a rank's part."""
    names = (sizes.symbol_and_divisors(dim)[0] for shape in shapes for dim in shape)
    return frozenset(name for name in names if name)


def symbols_of(shapes: Iterable[Shape], sizes: Sizes) -> frozenset[str]:
    """The symbols that shapes say: those of axes, and those without a number that follow."""
    shapes = tuple(shapes)
    names = axis_symbols(shapes, sizes)
    return names.union(implied_sizes(shapes, sizes, {*names, *sizes.defaults}))


def closure(
    needed: Iterable[str],
    places: Collection[str],
    sizes: Sizes,
    implied: Mapping[str, ImpliedSize] | None = None,
) -> tuple[list[str], list[str]]:
    """All symbols needed, those of definitions included; and the computed ones in order.

    A symbol with a place needs no definition. One that is `implied` is computed as a defined one.
    """
    implied = implied or {}
    names: dict[str, None] = {}
    defined: dict[str, None] = {}
    stack = [(name, False) for name in reversed(list(needed))]
    while stack:
        name, ready = stack.pop()
        if ready:
            defined[name] = None
        elif name not in names:
            names[name] = None
            parts = None
            if name not in places and name in implied:
                parts = implied[name].symbols()
            elif name not in places and name in sizes.definitions:
                parts = sizes.definition(name).symbols()
            if parts is not None:
                stack.append((name, True))
                stack.extend((part, False) for part in reversed(parts))
    return list(names), list(defined)
