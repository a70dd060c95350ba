"""Views: how a model sees a tensor, as factors of its axes, and as a line of a diagram.

torch writes every step of a layout on its own: view, transpose, expand, squeeze … Here they only
change a `View`; what is left of them is said by one R, T or BC where an operator needs it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import count
from typing import Any, Final, Literal

from xg.diagnostics.lazy_dataclass import dataclass, field, replace
from xg.ir.dim import ONE, Dim, DimError, product
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
