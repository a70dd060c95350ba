"""Views: how a model sees a tensor, as factors of its axes, and as a line of a diagram.

torch writes every step of a layout on its own: view, transpose, expand, squeeze … Here they only
change a `View`; what is left of them is said by one R, T or BC where an operator needs it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import count
from typing import Any, Final, Literal

from xg.diagnostics.lazy_dataclass import dataclass, field, replace
from xg.ir.dim import ONE, ZERO, Dim, DimError, number, product, symbol
from xg_torch.importing.errors import Unspeakable
from xg_torch.importing.exported import ModuleScope

# Which axes are one size: what a model forces to be equal, and what a size splits into.
#
# Numbers that happen to be equal are not one size: a width of 8 and 8 heads stay apart, because
# nothing adds or multiplies them along each other.


Size = int  # a size by its number here; `find` gives the representative of equal ones


class SizeClasses:
    """Every size of a model, in classes of equal ones."""

    def __init__(self) -> None:
        self.dims: list[Dim] = []  # in numbers and torch's symbols
        self._parent: list[Size] = []
        self._symbolic: dict[Dim, Size] = {}
        self._parts: dict[Size, list[tuple[Size, ...]]] = {}
        self.hints: dict[Size, dict[str, int]] = {}

    def make(self, dim: Dim) -> Size:
        """A size: a new one for a number, the one there is for a symbol."""
        if dim.constant is None and dim in self._symbolic:
            return self.find(self._symbolic[dim])
        size = len(self.dims)
        self.dims.append(dim)
        self._parent.append(size)
        if dim.constant is None:
            self._symbolic[dim] = size
        return size

    def find(self, size: Size) -> Size:
        """The representative of all sizes that are equal to this one."""
        while self._parent[size] != size:
            self._parent[size] = self._parent[self._parent[size]]
            size = self._parent[size]
        return size

    def dim(self, size: Size) -> Dim:
        """A size in numbers and torch's symbols."""
        return self.dims[size]

    def equal(self, one: Size | None, other: Size | None) -> None:
        """Note that two sizes are one, unless one is 1; what both split into is equal too."""
        waiting = [] if one is None or other is None else [(one, other)]
        while waiting:
            a, b = (self.find(size) for size in waiting.pop())
            if a == b:
                continue
            a, b = min(a, b), max(a, b)
            self._parent[b] = a
            for word, weight in self.hints.pop(b, {}).items():
                self.hint(a, word, weight)
            for parts in self._parts.pop(b, []):
                same = self._like(a, [self.dim(part) for part in parts])
                if same is None:
                    self._parts.setdefault(a, []).append(parts)
                else:
                    waiting += zip(same, parts, strict=True)

    def hint(self, size: Size, word: str, weight: int) -> None:
        """Propose a name for a size; the heaviest proposal wins."""
        words = self.hints.setdefault(self.find(size), {})
        words[word] = max(weight, words.get(word, 0))

    def split(self, size: Size, first: Dim) -> tuple[Size, Size]:
        """A size as a product: `first` of the rest. The same split gives the same parts."""
        size = self.find(size)
        dims = [first, self.dim(size) / first]
        sizes = self._like(size, dims)
        if sizes is None:
            sizes = tuple(self.make(dim) for dim in dims)
            self._parts.setdefault(size, []).append(sizes)
        return sizes[0], sizes[1]

    def join(self, parts: Sequence[Size]) -> Size:
        """Return the size that is the product of these sizes, the same for the same parts."""
        if len(parts) == 1:
            return self.find(parts[0])
        roots = [self.find(part) for part in parts]
        for size, ways in self._parts.items():
            if any([self.find(part) for part in way] == roots for way in ways):
                return self.find(size)
        joined = self.make(product(self.dim(part) for part in parts))
        self._parts.setdefault(self.find(joined), []).append(tuple(parts))
        return self.find(joined)

    def parts(self, size: Size) -> list[tuple[Size, ...]]:
        """Every way in which a size is split."""
        return [
            tuple(self.find(part) for part in way) for way in self._parts.get(self.find(size), [])
        ]

    def is_part(self, size: Size) -> bool:
        """Whether some size is split into this one and others."""
        ways = [way for every in self._parts.values() for way in every]
        return any(self.find(size) == self.find(part) for way in ways for part in way)

    def _like(self, size: Size, dims: Sequence[Dim]) -> tuple[Size, ...] | None:
        for way in self._parts.get(size, []):
            if [self.dim(part) for part in way] == list(dims):
                return way
        return None


def divides(part: Dim, whole: Dim) -> bool:
    """Whether `whole` is `part` times something that is a size for all sizes of its symbols."""
    try:
        rest = whole / part
    except DimError:
        return False
    whole_powers = all(power > 0 for monomial, _ in rest.terms for _, power in monomial)
    whole_numbers = all(coefficient.denominator == 1 for _, coefficient in rest.terms)
    return whole_powers and whole_numbers and (rest.constant is None or rest.constant > 0)


_keys: Final = count()


@dataclass(frozen=True, slots=True)
class Factor:
    """A factor of one axis; `key` distinguishes two axes of one size."""

    size: Size
    key: int

    @classmethod
    def of(cls, size: Size) -> Factor:
        """A factor like no other."""
        return cls(size, next(_keys))


Axis = tuple[Factor, ...]  # from the outermost factor in; () is an axis of size 1


@dataclass(frozen=True, slots=True, eq=False)
class ModelValue:
    """A tensor of the diagram: an edge, an input or a parameter; a size of None is 1."""

    axes: tuple[Size | None, ...]
    kind: Literal["float", "int"] = "float"
    param: str | None = None  # the name in the model, where it is a parameter


@dataclass(frozen=True, slots=True)
class View:
    """A value as a model sees it.

    `base` are the axes of the value, `axes` those seen. Factors that only `axes` has are repeats.
    """

    value: ModelValue
    base: tuple[Axis, ...]
    axes: tuple[Axis, ...]

    @classmethod
    def of(cls, value: ModelValue) -> View:
        """A value as it is."""
        axes = tuple(() if size is None else (Factor.of(size),) for size in value.axes)
        return cls(value, axes, axes)

    @property
    def repeats(self) -> frozenset[Factor]:
        """The factors along which the value is repeated."""
        return frozenset(_flat(self.axes)) - frozenset(_flat(self.base))

    @property
    def plain(self) -> bool:
        """Whether the value is seen as it is."""
        return self.base == self.axes

    def with_axes(self, axes: Iterable[Axis]) -> View:
        """The value seen otherwise."""
        return replace(self, axes=tuple(axes))

    def on(self, value: ModelValue) -> View:
        """Another value of the same axes, seen the same way."""
        return replace(self, value=value)

    def shape(self, sizes: SizeClasses) -> tuple[Dim, ...]:
        """The sizes seen."""
        return tuple(length(axis, sizes) for axis in self.axes)


def _flat(axes: Iterable[Axis]) -> list[Factor]:
    return [factor for axis in axes for factor in axis]


def length(axis: Axis, sizes: SizeClasses) -> Dim:
    """How long an axis is."""
    return product(sizes.dim(factor.size) for factor in axis)


def substitute(view: View, old: Factor, new: Axis) -> View:
    """A view with a factor split further."""

    def changed(axes: tuple[Axis, ...]) -> tuple[Axis, ...]:
        return tuple(
            tuple(item for factor in axis for item in (new if factor == old else (factor,)))
            for axis in axes
        )

    return View(view.value, changed(view.base), changed(view.axes))


def split(view: View, factor: Factor, first: Dim, sizes: SizeClasses) -> View:
    """A view with a factor taken apart: `first` outside, the rest inside."""
    outer, inner = sizes.split(factor.size, first)
    return substitute(view, factor, (Factor.of(outer), Factor.of(inner)))


def regroup(view: View, shape: Sequence[Dim], sizes: SizeClasses) -> View:
    """The view of torch's `view` and `reshape`: factors in their order, other axes around them."""
    axes: list[Axis] = []
    done = 0  # factors that have their axis
    for dim in shape:
        axis: list[Factor] = []
        left = dim
        while left != ONE:
            flat = _flat(view.axes)
            if done >= len(flat):
                raise Unspeakable("its layout cannot be followed")
            factor = flat[done]
            here = sizes.dim(factor.size)
            if not divides(here, left):
                if not divides(left, here):
                    raise Unspeakable(f"an axis of {here} is laid out across {left}")
                view = split(view, factor, left, sizes)
                continue
            axis.append(factor)
            left = left / here
            done += 1
        axes.append(tuple(axis))
    if done != len(_flat(view.axes)):
        raise Unspeakable("its layout cannot be followed")
    return view.with_axes(axes)


def expand(view: View, shape: Sequence[Dim], sizes: SizeClasses) -> View:
    """Return the view of torch's `expand`: axes of size 1 repeat, and new ones come first."""
    axes = [()] * (len(shape) - len(view.axes)) + list(view.axes)
    seen = [
        axis if axis or dim == ONE else (Factor.of(sizes.make(dim)),)
        for axis, dim in zip(axes, shape, strict=True)
    ]
    return view.with_axes(seen)


def factor_pairs(one: View, other: View) -> dict[Factor, Factor]:
    """The factors of the other view by those of the first: both were aligned."""
    pairs: dict[Factor, Factor] = {}
    for mine, its in zip(one.axes, other.axes, strict=True):
        pairs.update(zip(mine, its, strict=True))
    return pairs


def align(one: View, other: View, sizes: SizeClasses) -> tuple[View, View]:
    """Two views broadcast to one shape: axis by axis they have as many factors of equal sizes."""
    rank = max(len(one.axes), len(other.axes))
    one, other = (
        view.with_axes([()] * (rank - len(view.axes)) + list(view.axes)) for view in (one, other)
    )
    for place in range(rank):
        one, other = _align_axis(one, other, place, sizes)
    return one, other


def _align_axis(one: View, other: View, place: int, sizes: SizeClasses) -> tuple[View, View]:
    step = 0
    while True:
        a, b = one.axes[place], other.axes[place]
        if not a or not b:
            return _repeat_axis(one, place, b, sizes), _repeat_axis(other, place, a, sizes)
        if step == len(a) == len(b):
            return one, other
        if step >= len(a) or step >= len(b):
            raise Unspeakable("its operands have axes that do not fit each other")
        x, y = sizes.dim(a[step].size), sizes.dim(b[step].size)
        if x == y:
            sizes.equal(a[step].size, b[step].size)
            step += 1
        elif divides(x, y):
            other = split(other, b[step], x, sizes)
        elif divides(y, x):
            one = split(one, a[step], y, sizes)
        else:
            raise Unspeakable(f"its operands have axes of {x} and {y}")


def _repeat_axis(view: View, place: int, like: Axis, sizes: SizeClasses) -> View:
    """A view whose axis of size 1 is repeated along another's factors."""
    if view.axes[place] or not like:
        return view
    axes = list(view.axes)
    axes[place] = tuple(Factor.of(factor.size) for factor in like)
    return view.with_axes(axes)


# The model in the operators of the legend: steps in order, each in its module.


@dataclass(frozen=True, slots=True, eq=False)
class ModelStep:
    """One node: an operator on values. `data` arrive by arrows, `own` are in its box.

    `attrs` are the other entries of the box, by the writer's names; sizes in it are `Size`s.
    """

    operator: str
    data: tuple[ModelValue, ...]
    outputs: tuple[ModelValue, ...]
    stack: tuple[ModuleScope, ...]
    own: tuple[ModelValue, ...] = ()
    attrs: dict[str, Any] = field(default_factory=dict[str, Any])

    @property
    def operands(self) -> tuple[ModelValue, ...]:
        """Everything that it reads."""
        return (*self.data, *self.own)


@dataclass(frozen=True, slots=True)
class WrittenOperator:
    """An operator that a file defines: its name, ``(a [.., S, T]; w)``, and its expression."""

    name: str
    signature: str
    body: str


@dataclass(frozen=True, slots=True)
class Arrangement:
    """The axes of R, T and BC: `source` and `target` as groups of factors by number.

    `sizes` says how long each factor is; those that only `target` has are new.
    """

    source: tuple[tuple[int, ...], ...]
    target: tuple[tuple[int, ...], ...]
    sizes: tuple[Size, ...]


@dataclass(frozen=True, slots=True)
class Weight:
    """Where the numbers of a parameter come from: a tensor of the model, cut and turned.

    A kernel of patches is `flat`: all axes but the first are one, before it is turned. Of a
    `kernel` of windows, [D, C, k, ..] becomes [k, .., C, D]. A `frozen` one has no gradient.
    """

    source: str
    transposed: bool = False
    axis: int = 0
    start: int | None = None
    stop: int | None = None
    flat: bool = False
    kernel: bool = False
    frozen: bool = False

    def laid_out(self, shape: Sequence[int]) -> list[int]:
        """The shape of what was cut, with its axes merged or moved, before it is turned."""
        if self.flat:
            return [shape[0], math.prod(shape[1:])]
        return [*shape[2:], shape[1], shape[0]] if self.kernel else [*shape]

    @staticmethod
    def swap_last_axes(axes: Sequence[Size | None]) -> list[Size | None]:
        """Axes with the last two exchanged, as `transposed` does."""
        return [*axes[:-2], *axes[:-3:-1]]


@dataclass(frozen=True)
class Model:
    """A whole model: what comes in by name, its steps, what goes out, where weights come from."""

    inputs: Mapping[str, ModelValue]
    steps: Sequence[ModelStep]
    outputs: Sequence[ModelValue]
    weights: Mapping[ModelValue, Weight]
    ranges: Mapping[ModelValue, Size]  # what integers index
    sizes: SizeClasses
    notes: Sequence[str] = ()  # differences of the diagram from the model
    rounded: bool = False  # whether a table of float32 means exact positions


# Names for sizes: B, S, V, D, N_H, D_h … with their numbers, and formulas where one follows.


STRONG: Final = 3  # a proposal of less weight gives way to a product of named parts
ORDER: Final = ("B", "S", "V", "D", "N_L", "N_H", "N_KV", "D_h", "D_ff", "S_max")


@dataclass(frozen=True)
class Dims:
    """The dims that the file declares (name, and number or formula), and the names of sizes."""

    declared: tuple[tuple[str, str], ...]
    of: dict[Size, Dim]
    symbols: dict[str, Dim]
    sizes: SizeClasses

    def __getitem__(self, size: Size | None) -> Dim:
        """A size in names of the file; None is 1."""
        return ONE if size is None else self.of[self.sizes.find(size)]

    def shape(self, value: ModelValue) -> str:
        """``[B, S, D]``."""
        return "[" + ", ".join(str(self[size]) for size in value.axes) + "]"

    def rename_symbols(self, dim: Dim) -> Dim:
        """A size in torch's symbols, in names of the file."""
        return dim.substitute(self.symbols)


def name_sizes(model: Model, counts: Iterable[int]) -> Dims:
    """Names for all sizes of a model, and for the lengths of its repetitions."""
    return _SizeNamer(model).names(counts)


class _SizeNamer:
    """Gives each class of equal sizes its name, the strongest proposals first."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.sizes = model.sizes
        self.of: dict[Size, Dim] = {}
        self.numbers: dict[str, str] = {}  # what is declared: a number, a formula or nothing
        self.formulas: dict[str, Dim] = {}  # those of them that follow from others
        self.products: dict[Size, None] = {}  # those that are made of parts, inner ones first
        self.values: dict[str, int] = {}
        self.sums = self._along("slice", "before") | self._along("split", "axis")

    def names(self, counts: Iterable[int]) -> Dims:
        sizes = list(dict.fromkeys(self.sizes.find(size) for size in _file_sizes(self.model)))
        symbols = self._symbols(sizes)
        numeric = [size for size in sizes if self.sizes.dim(size).constant is not None]
        waiting = list(numeric)
        for size in numeric:
            waiting += [part for way in self.sizes.parts(size) for part in way]
        roots = list(dict.fromkeys(self.sizes.find(size) for size in waiting))
        for size in sorted(roots, key=lambda size: (-self._best(size)[1], size)):
            self._name(size)
        for size in roots:
            self._follow(size)
        self._name_parts()
        for size in (*roots, *sizes):
            self._fall_back(size, symbols)
        for step in self.model.steps:
            if step.operator in ("C", "split"):
                self._add_up(step)
        for size in _named_axes(self.model):
            self._name_axis(self.sizes.find(size))
        for size in roots:
            self._agree(size)
        for size in self.products:
            self._multiply(size)
        for length in counts:
            self._declare("N_L", length)
        declared = tuple((name, self.numbers[name]) for name in sorted(self.numbers, key=_rank))
        return Dims(declared, self.of, symbols, self.sizes)

    def _along(self, operator: str, attribute: str) -> set[Size]:
        """The axes that slices were cut from, or that C has made."""
        sizes: set[Size] = set()
        for step in self.model.steps:
            if step.operator == operator and attribute in step.attrs:
                value = step.outputs[0] if operator == "C" else step.data[0]
                place: int = step.attrs["axis"]
                size = value.axes[place]
                if size is not None:
                    sizes.add(self.sizes.find(size))
        return sizes

    def _name_parts(self) -> None:
        """Names for numbers that an operator calls by their name, before they are factors."""
        joined = self._along("C", "axis") - self._along("split", "axis")
        for size in map(self.sizes.find, _named_axes(self.model)):
            count = self.sizes.dim(size).constant
            free = size not in self.of and size not in joined and not self.sizes.parts(size)
            if free and count is not None:
                self.of[size] = symbol(self._declare("N", int(count)))
        for size in map(self.sizes.find, _parts_of_splits(self.model)):
            count = self.of.get(size, self.sizes.dim(size)).constant
            if count is not None and not self.sizes.parts(size):
                self.of[size] = symbol(self._declare("N", count))

    def _symbols(self, sizes: list[Size]) -> dict[str, Dim]:
        """torch's symbols, named by their first place in an input."""
        dims: dict[str, Dim] = {}
        for size in sizes:
            for name in self.sizes.dim(size).symbols():
                if name not in dims:
                    own = self.sizes.find(self.sizes.make(symbol(name)))
                    word = "B" if "B" in self.sizes.hints.get(own, {}) else "S"
                    dims[name] = symbol(self._free(word))
                    self.numbers[str(dims[name])] = ""
        return dims

    def _add_up(self, step: ModelStep) -> None:
        """Make the axis of a C, or the axis that a split cuts, the sum of its parts."""
        place: int = step.attrs["axis"]
        total = ZERO
        parts, whole = step.data, step.outputs[0]
        if step.operator == "split":
            parts, whole = step.outputs, step.data[0]
        for value in parts:
            size = value.axes[place]
            total = total + (ONE if size is None else self.of[self.sizes.find(size)])
        axis_size = whole.axes[place]
        if axis_size is not None:
            name = self.of[self.sizes.find(axis_size)].name
            if name is not None and self.numbers.get(name, "").isdigit():
                self._define(name, total)
            elif name is None:
                self.of[self.sizes.find(axis_size)] = total
                self.products.pop(self.sizes.find(axis_size), None)

    def _name_axis(self, size: Size) -> None:
        """A name for an axis that an operator calls by its name."""
        dim = self.of[size]
        if dim.name is not None:
            return
        count = dim.constant
        name = self._declare("N", count) if count is not None else self._free("S")
        self._define(name, dim)
        for other, other_dim in self.of.items():
            if other_dim == dim and (count is None or other == size):
                self.of[other] = symbol(name)

    def _free(self, word: str) -> str:
        if word not in self.numbers:
            return word
        number = 2
        while f"{word}_{number}" in self.numbers:
            number += 1
        return f"{word}_{number}"

    def _best(self, size: Size) -> tuple[str, int]:
        hints = self.sizes.hints.get(self.sizes.find(size), {})
        return max(hints.items(), key=lambda item: (item[1], item[0]), default=("", 0))

    def _name(self, size: Size) -> None:
        """The proposed name, unless a product of parts says more."""
        word, weight = self._best(size)
        value = self.sizes.dim(size).constant
        if not word or value is None or (weight < STRONG and self.sizes.parts(size)):
            return
        if weight < STRONG and self.values.get("D") == value:
            word = "D"
        self.of[size] = symbol(self._declare(word, value))

    def _declare(self, word: str, value: int) -> str:
        """A name for a number: the same for the same number."""
        name, count = word, 1
        while self.values.get(name, value) != value or (
            name in self.numbers and name not in self.values
        ):
            count += 1
            name = f"{word}_{count}"
        self.numbers.setdefault(name, str(value))
        self.values[name] = value
        return name

    def _follow(self, size: Size) -> None:
        """``D_h = D/N_H``: the last part of a split follows from the others."""
        for way in self.sizes.parts(size):
            first, last = way[0], way[-1]
            if len(way) == 2 and size in self.of and first not in self.of:
                inner = self.of.get(last, number(self.sizes.dim(last).constant or 1))
                self.of[first] = self.of[size] / inner
            if len(way) != 2 or first not in self.of or last in self.sums:
                continue
            whole = self._known_dim(size)
            if whole is None:
                continue
            rest = whole / self.of[first]
            if last not in self.of:
                self.of[last] = rest
            name = self.of[last].name
            summed = {self.of[each].name for each in self.sums if each in self.of}
            if name == "D_h" and self.numbers.get(name, "").isdigit() and name not in summed:
                self._define(name, rest)

    def _define(self, name: str, dim: Dim) -> None:
        """Let a name be a number, or follow from others."""
        self.numbers[name] = str(dim)
        if dim.constant is None:
            self.formulas[name] = dim

    def _agree(self, size: Size) -> None:
        """Let a size that has a name be the product of its parts, not by numbers alone."""
        whole, name = self.of[size], self.of[size].name
        if name is None or size in self.products:
            return
        for way in self.sizes.parts(size):
            made = product(map(self._dim_of, way))
            inner = self._expanded(made)
            if self._expanded(whole) == inner:
                continue
            follows = inner.constant is None and name not in inner.symbols()
            if follows and self.numbers[name].isdigit():
                self._define(name, made)
            elif self._dim_of(way[0]).name is None:
                self.of[way[0]] = whole / made * self._dim_of(way[0])

    def _multiply(self, size: Size) -> None:
        """Set a product to the product of the names that its parts now have."""
        whole, made = self.of[size], self._product(self.sizes.parts(size)[0])
        inner, name = self._expanded(made), whole.name
        if self._expanded(whole) == inner:
            return
        if name not in (None, *inner.symbols()) and list(self.of.values()).count(whole) == 1:
            self._define(str(name), made)
        else:
            self.of[size] = made

    def _expanded(self, dim: Dim) -> Dim:
        """A size in names of numbers alone."""
        for _ in self.formulas:
            dim = dim.substitute(self.formulas)
        return dim

    def _known_dim(self, size: Size) -> Dim | None:
        """The name of a size, or of another of the same number that heads are a part of."""
        if size in self.of:
            return self.of[size]
        same = [n for n, v in self.values.items() if v == self.sizes.dim(size).constant]
        return symbol("D") if "D" in same else None

    def _fall_back(self, size: Size, symbols: dict[str, Dim]) -> None:
        """Products of named parts, numbers, and what torch says of sizes with symbols."""
        waiting = [size]
        while waiting:
            whole = waiting[-1]
            way = next(iter(self.sizes.parts(whole)), ())
            missing = [part for part in way if part not in self.of and part not in waiting]
            if whole not in self.of and missing:
                waiting += missing
                continue
            waiting.pop()
            if whole not in self.of and way:
                self.of[whole] = self._product(way)
                self.products[whole] = None
            elif whole not in self.of:
                self.of[whole] = self._plain(whole, symbols)

    def _product(self, parts: Iterable[Size]) -> Dim:
        """The product of parts."""
        return product(map(self._dim_of, parts)).substitute(self._formulas())

    def _dim_of(self, size: Size) -> Dim:
        """A size by its name; one that surrounds all of this is a number."""
        return self.of.get(size, self.sizes.dim(size))

    def _plain(self, size: Size, symbols: dict[str, Dim]) -> Dim:
        dim = self.sizes.dim(size)
        return number(dim.constant) if dim.constant is not None else dim.substitute(symbols)

    def _formulas(self) -> dict[str, Dim]:
        """Names that are formulas, so that N_H*D_h is D again."""
        return {
            name: symbol("D") / symbol("N_H")
            for name, text in self.numbers.items()
            if text == "D/N_H"
        }


def _parts_of_splits(model: Model) -> Iterator[Size]:
    """The axes that a `split` makes of one, whose lengths only their names say."""
    for step in model.steps:
        if step.operator == "split":
            place: int = step.attrs["axis"]
            axes = (value.axes[place] for value in step.outputs)
            yield from (size for size in axes if size is not None)


def _rank(name: str) -> tuple[int, str]:
    places = [i for i, word in enumerate(ORDER) if name.startswith(f"{word}_")]
    return (ORDER.index(name) if name in ORDER else min(places, default=len(ORDER)), name)


def _file_sizes(model: Model) -> Iterator[Size]:
    """Every size that a file will mention, in order."""
    for value in model.inputs.values():
        yield from _axes(value)
        if value in model.ranges:
            yield model.ranges[value]
    for step in model.steps:
        for value in (*step.operands, *step.outputs):
            yield from _axes(value)
        for attr in step.attrs.values():
            if isinstance(attr, Arrangement):
                yield from attr.sizes
        for key in ("length", "contracted", "before", "groups"):
            yield from step.attrs.get(key, ())


def _named_axes(model: Model) -> Iterator[Size]:
    """The axes that `pick`, `slice`, `mean` and `sum` name, and those that `split` takes apart."""
    for step in model.steps:
        places: tuple[int, ...] = step.attrs.get("over", ())
        if step.operator in ("pick", "slice", "split"):
            places = (step.attrs["axis"],)
        for place in places:
            size = step.data[0].axes[place]
            if size is not None:
                yield size


def _axes(value: ModelValue) -> Iterator[Size]:
    yield from (size for size in value.axes if size is not None)
