"""Names for sizes: B, S, V, D, N_H, D_h … with their numbers, and formulas where one follows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from xg.diagnostics.lazy_dataclass import dataclass
from xg.ir.dim import ONE, ZERO, Dim, number, product, symbol
from xg_torch.importing.views import Arrangement, Model, ModelStep, ModelValue, Size, SizeClasses

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
        for count in counts:
            self._declare("N_L", count)
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
