"""The type of a tensor: its shape, and for integers their range."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from contextlib import suppress

from xg.diagnostics.lazy_dataclass import dataclass, field, replace
from xg.diagnostics.limits import Beyond, Limit
from xg.ir.dim import ONE, ZERO, Dim, DimError, product, symbol

Shape = tuple[Dim, ...]


class LargeDefinition(Beyond):
    """A dim whose size passes a limit when the dims in it are written out."""

    def __init__(self, name: str, limit: Limit) -> None:
        super().__init__(limit)
        self.name = name


class NoQuotient(DimError):
    """A dim that is no size when the dims in it are written out: it is divided by a sum."""

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(reason)
        self.name = name


@dataclass(frozen=True, slots=True)
class TensorType:
    """A tensor of floats, or of integers 0 … range-1 when `range` is given."""

    shape: Shape
    range: Dim | None = None

    @property
    def is_float(self) -> bool:
        """Whether gradients can flow here."""
        return self.range is None

    def substitute(self, values: Mapping[str, Dim]) -> TensorType:
        """This type with symbols replaced, all at once."""
        shape = tuple(dim.substitute(values) for dim in self.shape)
        return TensorType(shape, self.range.substitute(values) if self.range else None)

    def __str__(self) -> str:
        return spell_shape(self.shape) + (f" in {self.range}" if self.range else "")


@dataclass(frozen=True)
class Sizes:
    """The symbols of a program: definitions (``D_h = D/N_H``) and default numbers.

    `mesh` are the symbols that count ranks: a size divided by one is a rank's part. `local` are the
    symbols that a block declares for itself: they are no one else's.

    Types have *expanded* dims, in which no defined symbol occurs, so that equal sizes are equal
    dims; `fold` gives a size its name back for people to read.
    """

    definitions: Mapping[str, Dim] = field(default_factory=dict[str, Dim])
    defaults: Mapping[str, int] = field(default_factory=dict[str, int])
    mesh: tuple[str, ...] = ()
    local: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        expanded = _expanded(self.definitions)
        # Of several names of one size that which is free, or else the first that is no other's.
        said = [name for name, dim in self.definitions.items() if dim.name is None]
        names = {expanded[name]: name for name in reversed(said) if expanded[name].name is None}
        chosen = {n: names[d] if d.name is None else d.name for n, d in expanded.items()}
        aliases = {name: symbol(one) for name, one in chosen.items() if one != name}
        object.__setattr__(self, "_aliases", aliases)
        object.__setattr__(self, "_expanded", expanded)
        object.__setattr__(self, "_names", names)
        fractions = {dim: name for dim, name in names.items() if _is_fraction(dim)}
        object.__setattr__(self, "_fractions", fractions)
        object.__setattr__(self, "_folded", {})
        object.__setattr__(self, "_computed", {})

    _expanded: Mapping[str, Dim] = field(init=False, repr=False, compare=False)
    _names: Mapping[Dim, str] = field(init=False, repr=False, compare=False)
    _aliases: Mapping[str, Dim] = field(init=False, repr=False, compare=False)
    _fractions: Mapping[Dim, str] = field(init=False, repr=False, compare=False)
    _folded: dict[Dim, Dim] = field(init=False, repr=False, compare=False)  # answers of `fold`
    _computed: dict[Dim, Dim] = field(init=False, repr=False, compare=False)

    def structure(self) -> Hashable:
        """All but the numbers that the program gives its sizes."""
        numbers = ((n, v if n in self.local else None) for n, v in self.defaults.items())
        return tuple(self.definitions.items()), tuple(numbers), self.mesh, self.local

    def expand(self, dim: Dim) -> Dim:
        """The same size without defined symbols."""
        return dim.substitute(self._expanded)

    def definition(self, name: str) -> Dim:
        """The size that a name is, in the names that `fold` gives to sizes."""
        return self.definitions[name].substitute(self._aliases)

    def expand_type(self, type_: TensorType) -> TensorType:
        """The same type without defined symbols."""
        return type_.substitute(self._expanded)

    def fold(self, dim: Dim) -> Dim:
        """The same size under the names that the file gives it or its parts, if it gives any."""
        known = self._folded.get(dim)
        if known is None:
            known = self._folded[dim] = self._fold(dim, exactly=False)
        return known

    def fold_exactly(self, dim: Dim) -> Dim:
        """Fold a size, in names that are integers if it is: half of 2*D/N_H may be no integer."""
        known = self._computed.get(dim)
        if known is None:
            known = self._computed[dim] = self._fold(self.expand(dim), exactly=True)
        return known

    def _fold(self, dim: Dim, *, exactly: bool) -> Dim:
        if name := self._names.get(dim):
            return symbol(name)
        if len(dim.terms) > 1:
            terms = [Dim((term,)) for term in dim.terms]
            if exactly and sum(_divisors(term) > 0 for term in terms) > 1:
                return dim
            return sum((self._fold(term, exactly=exactly) for term in terms), ZERO)
        whole, parts = self.size_and_parts(dim)
        if parts != ONE:
            return self._fold(whole, exactly=exactly) / parts
        for fraction, name in self._fractions.items() if dim != ZERO else ():
            rest = dim / fraction
            ((monomial, coefficient),) = rest.terms
            is_part = coefficient.numerator == 1 and all(power < 0 for _, power in monomial)
            if _divisors(rest) < _divisors(dim) and (is_part or not exactly):
                return symbol(name) * self._fold(rest, exactly=exactly)
        return dim

    def size_and_parts(self, dim: Dim) -> tuple[Dim, Dim]:
        """Return the global size that a rank's size is a part of, and the number of parts."""
        if not self.mesh or len(dim.terms) != 1:
            return dim, ONE
        below = [name for name, power in dim.terms[0][0] if power < 0 and name in self.mesh]
        parts = product(symbol(name) for name in below)
        return dim * parts, parts

    def symbol_and_divisors(self, dim: Dim) -> tuple[str | None, Dim]:
        """The symbol whose size the length of an axis gives, and the factor between them."""
        whole, parts = self.size_and_parts(dim)
        return self.fold(whole).name, parts

    def fold_shape(self, shape: Shape) -> Shape:
        """`fold` on every axis."""
        return tuple(self.fold(dim) for dim in shape)

    def fold_type(self, type_: TensorType) -> TensorType:
        """`fold` on a type."""
        range_ = None if type_.range is None else self.fold(type_.range)
        return TensorType(self.fold_shape(type_.shape), range_)

    def same(self, left: Dim, right: Dim) -> bool:
        """Return whether two dims are one size for all values of the free symbols."""
        try:
            return left == right or self.expand(left) == self.expand(right)
        except DimError:  # one of them is no size
            return False

    def with_local(self, local: Mapping[str, Dim | None]) -> Sizes:
        """The same symbols with some declared again, for one block alone."""
        sized = {name: dim for name, dim in local.items() if dim is not None}
        numbers = {name: dim.constant for name, dim in sized.items()}
        definitions = {name: dim for name, dim in sized.items() if numbers[name] is None}
        fresh = {name: value for name, value in numbers.items() if value is not None}
        base = self.drop_symbols(frozenset(local))
        return replace(
            base,
            definitions={**base.definitions, **definitions},
            defaults={**base.defaults, **fresh},
            local=self.local.union(local),
        )

    def bound_outside(self, names: frozenset[str]) -> Sizes:
        """The same knowledge for a block whose call decides over these symbols."""
        return replace(self.drop_symbols(names), local=self.local | names) if names else self

    def drop_symbols(self, names: frozenset[str]) -> Sizes:
        """Return the same knowledge with some symbols free again."""
        if not names:
            return self
        dims = {name: dim for name, dim in self.definitions.items() if name not in names}
        numbers = {name: value for name, value in self.defaults.items() if name not in names}
        return replace(self, definitions=dims, defaults=numbers)

    def bind(self, given: Mapping[str, int]) -> dict[str, int]:
        """A number for every symbol that has one: given, by default or by definition.

        A definition that does not come out whole gives none: whether that matters is for those to
        say who use it.
        """
        numbers = {**self.defaults, **given}
        for name, dim in self._expanded.items():
            if name not in given and all(part in numbers for part in dim.symbols()):
                with suppress(DimError):
                    numbers[name] = dim.evaluate(numbers)
        return numbers


def _is_fraction(dim: Dim) -> bool:
    return len(dim.terms) == 1 and dim.terms[0][1] == 1 and _divisors(dim) > 0


def _divisors(dim: Dim) -> int:
    """How many symbols and numbers the terms are divided by."""
    return sum(
        (coefficient.denominator != 1) + sum(max(-power, 0) for _, power in monomial)
        for monomial, coefficient in dim.terms
    )


def _expanded(definitions: Mapping[str, Dim]) -> dict[str, Dim]:
    """Expand every definition into free symbols, the ones that it needs first."""
    expanded: dict[str, Dim] = {}
    waiting = list(definitions)[::-1]
    while waiting:
        name = waiting[-1]
        needed = [other for other in definitions[name].symbols() if other in definitions]
        missing = [other for other in needed if other not in expanded]
        if missing and name not in expanded:
            waiting += missing
            continue
        try:
            expanded[waiting.pop()] = definitions[name].substitute(expanded)
        except Beyond as beyond:
            raise LargeDefinition(name, beyond.limit) from None
        except DimError as error:
            raise NoQuotient(name, str(error)) from None
    return {name: expanded[name] for name in definitions}


def spell_shape(shape: Shape) -> str:
    """``[B, S, D]``, as the figures write it."""
    return "[" + ", ".join(str(dim) for dim in shape) + "]"
