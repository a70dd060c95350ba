"""Define what a backend spells: sizes, each primitive, and the support functions it needs."""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import cached_property
from math import lcm
from pathlib import Path
from typing import Protocol

from xg.codegen.emit.names import spell_symbol
from xg.codegen.emit.text import Precedence, Text, infix, power
from xg.diagnostics.diagnostic import DiagnosticError, Span
from xg.diagnostics.lazy_dataclass import dataclass, field
from xg.ir.dim import ONE, ZERO, Dim, Scalar, product, spell_number, symbol
from xg.ir.errors import UnboundSize
from xg.ir.prim import Expr
from xg.ir.size_checks import ImpliedSize, closure, implied_sizes
from xg.ir.tensor import Shape, Sizes, spell_shape

# Write sizes as integer expressions, and find where a function reads each symbol.


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


# Functions and classes that a generated module contains, from files of ordinary, tested code.
#
# In a module they are private: ``drop`` of a file is ``_drop`` there.


_DEFINED = (ast.FunctionDef, ast.ClassDef)


def private(function: str) -> str:
    """The name of a support function in a generated module."""
    return function if function.startswith("_") else f"_{function}"


class SupportFile:
    """The functions of some files and what they call among themselves.

    `spell` says the text of a file in the words of the backend, if others have the file, too.
    """

    def __init__(self, *paths: Path, spell: Callable[[str], str] = str) -> None:
        self.paths = [*paths]
        self._spell = dict.fromkeys(paths, spell)

    def __add__(self, other: SupportFile) -> SupportFile:
        """The functions of both, in this order."""
        both = SupportFile(*self.paths, *other.paths)
        both._spell = self._spell | other._spell
        return both

    def texts(self) -> list[str]:
        """The text of each file."""
        return [self._spell[path](path.read_text(encoding="utf-8")) for path in self.paths]

    def definitions(self) -> dict[str, ast.FunctionDef]:
        """Return the functions of the files by name."""
        nodes = [node for text in self.texts() for node in ast.parse(text).body]
        return {node.name: node for node in nodes if isinstance(node, ast.FunctionDef)}

    def source(self, function: str) -> str:
        """The text of a function as it is in a module: it and what it calls are private."""
        return self._functions[function][0]

    def callees(self, function: str) -> tuple[str, ...]:
        """The functions that a function calls."""
        return self._functions[function][1]

    def closure(self, functions: Iterable[str]) -> list[str]:
        """The functions and all that they call, in the order of the files."""
        names: set[str] = set()
        pending = list(functions)
        while pending:
            name = pending.pop()
            if name not in names:
                names.add(name)
                pending.extend(self._functions[name][1])
        return [name for name in self._functions if name in names]

    @cached_property
    def _functions(self) -> dict[str, tuple[str, tuple[str, ...]]]:
        """For every function: its text and the other functions that it calls."""
        bodies = [(text, ast.parse(text).body) for text in self.texts()]
        nodes = [(text, n) for text, body in bodies for n in body if isinstance(n, _DEFINED)]
        names = {node.name for _, node in nodes}
        functions: dict[str, tuple[str, tuple[str, ...]]] = {}
        for text, node in nodes:
            called = {
                inner.func.id
                for inner in ast.walk(node)
                if isinstance(inner, ast.Call)
                and isinstance(inner.func, ast.Name)
                and inner.func.id in names
            }
            functions[node.name] = (_with_private_names(text, node, names), tuple(sorted(called)))
        return functions


def _with_private_names(
    text: str, node: ast.FunctionDef | ast.ClassDef, names: Collection[str]
) -> str:
    """The text of a definition, with every mention of the named ones made private.

    Its decorators are part of it, which `ast` does not count.
    """
    first = min(part.lineno for part in (node, *node.decorator_list))
    lines = [line.encode() for line in text.split("\n")[first - 1 : node.end_lineno]]
    inner = [part for part in ast.walk(node) if isinstance(part, ast.Name)]
    bound = {part.id for part in inner if isinstance(part.ctx, ast.Store)}
    bound |= {part.arg for part in ast.walk(node) if isinstance(part, ast.arg)}
    places = [(part.lineno, part.col_offset, part.id) for part in inner if part.id not in bound]
    keyword = "class " if isinstance(node, ast.ClassDef) else "def "
    places.append((node.lineno, node.col_offset + len(keyword), node.name))
    for number, column, name in sorted(places, reverse=True):
        if name in names and private(name) != name:
            line = lines[number - first]
            lines[number - first] = line[:column] + b"_" + line[column:]
    return b"\n".join(lines).decode()


@dataclass(slots=True)
class Scope:
    """The names that the text of one function may mention, and those that it did mention.

    `dtype` is the text of the float type of the function's tensors, `device` of where they are.
    `needed` collects the symbols of sizes, `support` the backend's own functions, `typed` and
    `placed` whether type and device were mentioned.
    """

    sizes: Sizes
    dtype: str = "dtype"
    device: str = "device"
    typed: bool = False
    placed: bool = False
    own: dict[int, str] = field(default_factory=dict[int, str])
    needed: dict[str, None] = field(default_factory=dict[str, None])
    support: dict[str, None] = field(default_factory=dict[str, None])

    def size(self, dim: Dim) -> Text:
        """A size, under the name that the file gives it."""
        folded = self.sizes.fold_exactly(dim)
        self.needed.update(dict.fromkeys(folded.symbols()))
        return spell_dim(folded)

    def rounds(self, count: Dim, first: int) -> str:
        """The numbers of the rounds of a row."""
        return (
            f"range({first}, {self.size(count + first).text})"
            if first
            else (f"range({self.size(count).text})")
        )

    def shape(self, shape: Shape) -> list[str]:
        """The sizes of a shape."""
        return [self.size(dim).text for dim in shape]

    def number(self, scalar: Scalar) -> Text:
        """A real number; one that the function takes as an argument goes by that name."""
        if id(scalar) in self.own:
            return Text(self.own[id(scalar)])
        for dim in scalar.dims():
            self.needed.update(dict.fromkeys(self.sizes.fold_exactly(dim).symbols()))
        return spell_scalar(scalar, self.sizes)

    def float_type(self) -> str:
        """The text of the float type."""
        self.typed = True
        return self.dtype

    def place(self) -> str:
        """The text of the device."""
        self.placed = True
        return self.device

    def types(self, names: Sequence[str]) -> list[str]:
        """The texts of what is asked for of float type and device."""
        texts = {"dtype": self.float_type, "device": self.place}
        return [texts[name]() for name in names]

    def type_lines(self, floats: Sequence[str], tensors: Sequence[str], empty: str) -> list[str]:
        """Lines that fetch what was asked for from the first tensor, or from `empty`."""
        typed = [f"dtype = {next(iter(floats), empty)}.dtype"] if self.typed else []
        placed = [f"device = {next(iter(tensors), empty)}.device"] if self.placed else []
        return typed + placed

    def use(self, function: str) -> str:
        """The private name of a support function, which the module then contains."""
        self.support[function] = None
        return private(function)


Spell = Callable[[Expr, Sequence[Text], Scope], Text]


class Spelling(Protocol):
    """A backend's words. `seed` is the type of a seed; `empty` a float tensor without elements.

    `quiet` is the decorator of a function that computes both branches of a choice: the one that is
    not chosen is to give no warning. `wide` is the support function that decorates an operator that
    adds, and computes half types in float32. A library that `rounds_sizes` divides float16 numbers
    by a size of 65,520 as by inf. `saved_size` is the support class of a size that is
    saved as a number, if it needs one.
    """

    name: str
    seed: str
    empty: str
    saved_size: str
    quiet: str
    wide: str
    rounds_sizes: bool

    def primitive(self, expr: Expr, args: Sequence[Text], scope: Scope) -> Text:
        """The text of one primitive, its arguments given as text."""
        ...

    def cast(self, text: Text, scope: Scope) -> Text:
        """Integers or wide floats as floats of the function's type."""
        ...

    def zeros(self, shape: str, scope: Scope, *, whole: bool = False) -> str:
        """Zeros of a shape, a tuple as text, of the function's type; `whole` ones are integers."""
        ...

    def no_room(self, shape: str, scope: Scope) -> str:
        """Zeros of a shape that are only read, and take no room."""
        ...

    def stack(self, rows: str, axis: int) -> str:
        """A list of arrays, stacked along a new axis."""
        ...

    def support(self, function: str) -> str:
        """The source of a function that `Scope.use` asked for."""
        ...
