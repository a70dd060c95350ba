"""Describe one use of an operator in a file: its operands, arguments, brackets and windows."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import combinations
from typing import Any, Final, Literal

from xg.diagnostics.lazy_dataclass import dataclass
from xg.ir.dim import ONE, ZERO, Dim, DimError, number, product, symbol
from xg.ir.prim import Expr, Windows, overlap, window
from xg.ir.tensor import Shape, Sizes, TensorType

# The operator that an author may have forgotten, where one shape should be another.


def advice(found: Shape, wanted: Shape, names: Sequence[str]) -> str:
    """Suggest how to get from `found` to `wanted`; `names` are the axes of `found`."""
    if not found:
        return (
            "this is one number: BC repeats it; an op of your own keeps axes, "
            "as op f(x [.., D], y [.., D]) = sum[D]((x - y)^2)"
        )
    gone = [name for name, dim in zip(names, found, strict=True) if dim not in wanted]
    if found == wanted:
        return ""  # it is not the shape
    if Counter(found) == Counter(wanted):
        return "T reorders axes"
    if _is_part(found, wanted):
        return "BC repeats along new axes"
    if gone and _is_part(wanted, found):
        return f"mean[{', '.join(gone)}] or sum[{', '.join(gone)}] removes axes"
    if product(found) == product(wanted):
        return "R splits and merges axes"
    return ""


def _is_part(few: Sequence[Dim], many: Sequence[Dim]) -> bool:
    """Whether the one is the other with some axes left out."""
    rest = iter(many)
    return all(dim in rest for dim in few)


def unequal_operands(
    sign: str, first: Shape, second: Shape, spell: Callable[[Shape], str]
) -> tuple[str, ...]:
    """How two operands of a sum or an elementwise product get one shape."""
    if _is_part(second, first):
        return (f"{sign}<-BC(…) repeats the operand along the missing axes",)
    if _is_part(first, second):
        return (f"swap them: the larger one goes first, {sign}<-BC(…) repeats the smaller",)
    if len(first) != len(second):
        return ()
    if any(ONE in pair for pair in zip(first, second, strict=True) if pair[0] != pair[1]):
        return ("an axis of 1 is not repeated: R removes it, then BC repeats along a new one",)
    if Counter(first) == Counter(second):
        return (f"{sign}<-{_turn(second, first)}(…) gives the operand's axes as {spell(first)}",)
    return (*_suggest_projection(first, second, spell), *_one_name(first, second, spell))


def _turn(shape: Shape, wanted: Shape) -> str:
    """T, or T with a map, that gives the axes of a shape in a wanted order."""
    if (*shape[:-2], *shape[:-3:-1]) == wanted:
        return "T"
    places, letters = list(range(len(shape))), "abcdefghijklmnopqrstuvwxyz"
    order: list[str] = []
    for dim in wanted:
        place = next(place for place in places if shape[place] == dim)
        places.remove(place)
        order.append(letters[place])
    return f"T[{', '.join(letters[: len(shape)])} -> {', '.join(order)}]"


def _suggest_projection(
    first: Shape, second: Shape, spell: Callable[[Shape], str]
) -> tuple[str, ...]:
    """Suggest a product that leads from one shape to the other, if their last axes differ."""
    if first[:-1] != second[:-1] or not first[:-1]:
        return ()
    back = spell((first[-1], second[-1]))
    return (f"-> •<=W before it, with param W {back}, makes {spell(second)} of {spell(first)}",)


def _one_name(first: Shape, second: Shape, spell: Callable[[Shape], str]) -> tuple[str, ...]:
    """Suggest one name for two dims that may be meant to be one."""
    different = [pair for pair in zip(first, second, strict=True) if pair[0] != pair[1]]
    if len(set(different)) != 1:
        return ()
    left, right = (spell((dim,))[1:-1] for dim in different[0])
    if not (left.isidentifier() and right.isidentifier()):
        return ()
    return (f"{left} and {right} are two lengths: if they are equal, use one name",)


LETTERS: Final = "ijkmnpqabcdefghlorstuvwxyz"  # of axes without a name of their own
Attrs = Mapping[str, Any]  # resolved attributes; each operator knows the types of its own


# ---- what a node takes --------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Data:
    """An operand that arrives by an arrow: floats, integers, or any of them.

    Of a defined operator `axes` are the names in its signature, and `below` is the one that
    integers stay below, or a number.
    """

    name: str
    kind: Literal["float", "int", "any"] = "float"
    optional: bool = False
    axes: tuple[str, ...] = ()
    below: str | int | None = None


@dataclass(frozen=True, slots=True)
class Tensor:
    """A parameter of the node's own, printed in its box: γ, β, a table.

    Help for a missing one declares it so: `start` is its usual start, `shape` says what its axes
    are: that in brackets or the last one of the operand (`axis`), the last one of the operand
    (`last`) or of the result (`target`), as many positions as it has integers (`range`), or one
    of a kernel for each axis in brackets (`windows`).
    """

    name: str
    optional: bool = False
    start: Literal["", "ones", "zeros"] = ""
    shape: tuple[Literal["axis", "last", "target", "range", "windows"], ...] = ("axis",)


@dataclass(frozen=True, slots=True)
class Number:
    """A real number; without `default` it must be given, unless it is `optional`."""

    name: str
    default: float | None = None
    optional: bool = False


@dataclass(frozen=True, slots=True)
class Word:
    """One of a few words; the first is the default."""

    name: str
    choices: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Length:
    """A size, such as the S of ``sinusoid(S, D)``; it must be given, unless it is `optional`."""

    name: str
    optional: bool = False


@dataclass(frozen=True, slots=True)
class MeshAxis:
    """An axis of the mesh of ranks, such as the N_T of ``AR(N_T)``."""

    name: str


Own = Tensor | Number | Word | Length | MeshAxis


# ---- axis maps ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Axis:
    """One axis in brackets; `size` where the file gives it. `name` is "" for an axis of size 1.

    `place` counts from the end where the file counts: the name is then the number.
    """

    name: str
    size: Dim | None = None
    place: int | None = None


REST = Axis("..")
AxisGroup = tuple[Axis, ...]


@dataclass(frozen=True, slots=True)
class AxisMap:
    """``[b, (h, d) -> b, h, d]``; a plain list of axes has no target."""

    source: tuple[AxisGroup, ...]
    target: tuple[AxisGroup, ...] | None


# ---- one use ------------------------------------------------------------------------------------


class Misuse(Exception):
    """A use that the operator refuses, in the file's own symbols.

    `notes` are remarks on single operands (counted as in the use), `help` says how to fix it.
    """

    def __init__(
        self, message: str, notes: Mapping[int, str] | None = None, help: Sequence[str] = ()
    ) -> None:
        super().__init__(message)
        self.message = message
        self.notes = dict(notes or {})
        self.help = tuple(help)


@dataclass(frozen=True, slots=True)
class Use:
    """One use of an operator, as its `configure` sees it. Shapes are expanded (see `Sizes`).

    `targets` are the shapes of the labels that follow, one per output; `peer` is the shape of the
    other operand of the node that takes its result.
    """

    types: tuple[TensorType, ...]
    own: Attrs
    axes: AxisMap | None
    targets: tuple[Shape | None, ...]
    peer: Shape | None
    sizes: Sizes

    @property
    def target(self) -> Shape | None:
        """The shape of the label that follows, if there is one label with a shape."""
        return self.targets[0] if len(self.targets) == 1 else None

    def spell(self, shape: Shape) -> str:
        """A shape as the file would write it."""
        return "[" + ", ".join(str(self.sizes.fold(dim)) for dim in shape) + "]"

    def letters(self, shape: Shape) -> list[str]:
        """A letter for each axis, as maps write them: `b, s, i` for [B, S, S]."""
        letters: list[str] = []
        for dim in shape:
            first = str(self.sizes.fold(dim))[:1].lower()
            fits = first.isascii() and first.isalpha() and first not in letters
            letters.append(first if fits else next(i for i in LETTERS if i not in letters))
        return letters

    def repeats(self, few: Shape, many: Shape) -> list[str]:
        """BC with each map that makes the one shape of the other by new axes."""
        maps: list[str] = []
        for kept in combinations(range(len(many)), len(few)):
            if tuple(many[place] for place in kept) == few:
                letters = self.letters((*few, *many))
                names = dict(zip(kept, letters, strict=False))
                new = (i for i in letters[len(few) :] if i not in names.values())
                axes = (
                    names.get(i) or f"{next(new)}={self.sizes.fold(many[i])}"
                    for i in range(len(many))
                )
                maps.append(f"BC[{', '.join(letters[: len(few)])} -> {', '.join(axes)}]")
        return maps

    def bracket_sizes(self, glyph: str, example: str) -> Shape:
        """Return the new axes that the brackets list: names of sizes, or ``n=2*D``."""
        if self.axes is None:
            raise Misuse(f"{glyph} needs its axes in brackets", help=(f"for example {example}",))
        axes = [axis for group in self.axes.source for axis in group]
        sizes = (a.size or (symbol(a.name) if a.name else ONE) for a in axes)
        return tuple(map(self.sizes.expand, sizes))

    def along(self, message: str, help: str) -> Attrs:
        """The own arguments, with the `axis` that the brackets name where it is not the last."""
        axis = -1 if self.axes is None else self.one_axis(message, help)
        return self.own if axis == -1 else {**self.own, "axis": axis}

    def bracket_axis(self, message: str, help: str) -> Axis | None:
        """Return the only axis that the brackets list, or None without brackets."""
        if self.axes is None:
            return None
        listed = [axis for group in self.axes.source for axis in group]
        if len(listed) != 1:
            raise Misuse(message, help=(help,))
        return listed[0]

    def one_axis(self, message: str, help: str) -> int:
        """The only axis that the brackets list, counted from the end.

        In the help, what its brackets hold is an axis that the operand has.
        """
        axes = self.named_axes()
        if len(axes) != 1:
            meant = self.pointed_at() or self.axis(self.types[0].shape, -1)
            raise Misuse(message, help=(re.sub(r"\[\w+\]", f"[{meant}]", help, count=1),))
        return axes[0]

    def position(self, name: str, axis: int) -> Dim:
        """A position of an axis among the own arguments; a negative number counts from its end."""
        place: Dim = self.own[name]
        is_negative = place.constant is not None and place.constant < 0
        return self.types[0].shape[axis] + place if is_negative else place

    def pointed_at(self) -> str:
        """The axis that integers of the second operand point along, "" if none says so."""
        shape, below = self.types[0].shape, self.types[-1].range
        places = [place for place, dim in enumerate(shape) if dim == below]
        return self.axis(shape, places[0]) if len(self.types) > 1 and len(places) == 1 else ""

    def window_axes(self, count: int | None = None) -> str:
        """Return the axes that windows are usually cut from, as brackets name them.

        They are so many in front of the last, the channels; else those that the label has shorter,
        or all that are not the first.
        """
        shape, target = self.types[0].shape, self.target
        if count is None and target is not None and len(target) == len(shape):
            cut = [place for place, dim in enumerate(shape) if dim != target[place]]
            if cut:
                return ", ".join(self.axis(shape, place) for place in cut)
        first = len(shape) - 1 - count if count else min(1, len(shape) - 1)
        places = range(max(first, 0), len(shape) - 1) or range(len(shape))[-1:]
        return ", ".join(self.axis(shape, place) for place in places)

    def channels(self, own: Sequence[TensorType], glyph: Literal["LN", "BN"]) -> tuple[str, ...]:
        """The brackets with which a norm has parameters along the one axis that theirs is."""
        shape, first = self.types[0].shape, own[0].shape
        if len(first) != 1 or shape.count(first[0]) != 1 or any(t.shape != first for t in own):
            return ()
        others = [place for place, dim in enumerate(shape) if dim != first[0]]
        if glyph == "LN":
            return (f"a norm of another axis names it: write `LN[{self.spell(first)[1:-1]}](…)`",)
        named = ", ".join(self.axis(shape, place) for place in others)
        return (f"the axes of its statistics go in brackets: write `BN[{named}](…)`",)

    def named_axes(self) -> tuple[int, ...]:
        """The axes of the first operand that the brackets list, counted from the end."""
        shape = self.types[0].shape
        if self.axes is None:
            return ()
        numbers = [self._axis(shape, axis) for group in self.axes.source for axis in group]
        if len(set(numbers)) < len(numbers):
            raise Misuse("the brackets name an axis twice")
        return tuple(numbers)

    def reduced_axes(self, glyph: str) -> tuple[int, ...]:
        """Return the axes in brackets, which are reduced; the error without any suggests some."""
        if self.axes is None:
            shape, target = self.types[0].shape, self.target
            rest = iter(range(len(shape)))
            kept = [next((i for i in rest if shape[i] == dim), None) for dim in target or ()]
            fits = target is not None and None not in kept
            gone = [i for i in range(len(shape)) if i not in kept] if fits else []
            named = ", ".join(self.axis(shape, i) for i in gone)
            each = [f"{glyph}[{self.axis(shape, i)}]" for i in reversed(range(len(shape)))]
            help = (f"name them: {glyph}[{named}]",) if gone else ()
            if not gone and each:  # which of them only the author knows
                listed = filter(None, (", ".join(each[:-1]), each[-1]))
                help = (f"name them: {' or '.join(listed)}",)
            raise Misuse(f"{glyph} does not know over which axes", help=help)
        return self.named_axes()

    def axis(self, shape: Shape, place: int) -> str:
        """An axis as brackets name it: counted from the end where its name does not tell it."""
        place %= len(shape)
        name = str(self.sizes.fold(shape[place]))
        told = name.isidentifier() and shape.count(shape[place]) == 1
        return name if told else str(place - len(shape))

    def _near(self, shape: Shape, name: str) -> Sequence[str]:
        """The axis whose size has a symbol of this name in it, where there is one such."""
        if not name:
            return ("numbers count from the end: -1 is the last axis",)
        near = [place for place, dim in enumerate(shape) if name in dim.symbols()]
        if len(near) != 1:
            return ()
        size, meant = self.sizes.fold(shape[near[0]]), self.axis(shape, near[0])
        return (f"{size} is another size than {name}: its axis is [{meant}]",)

    def _axes(self, shape: Shape) -> Sequence[str]:
        """The axes that brackets could name."""
        known = " or ".join(f"[{self.axis(shape, place)}]" for place in range(len(shape)))
        return (f"name an axis that it has: {known}",) if known else ()

    def _axis(self, shape: Shape, axis: Axis) -> int:
        name = axis.name
        if axis.place is not None:
            if -axis.place > len(shape):
                raise Misuse(f"{self.spell(shape)} has no axis {name}")
            return axis.place
        size = self.sizes.expand(symbol(name)) if name else ONE
        places = [place for place, dim in enumerate(shape, -len(shape)) if dim == size]
        if len(places) != 1:
            what = "more than one axis" if places else "no axis"
            counted = " or ".join(map(str, places))
            help = (f"count from the end: {counted} instead of {name or 1}",) if places else ()
            if not places:
                help = self._near(shape, name) or self._axes(shape)
            raise Misuse(f"{self.spell(shape)} has {what} {name or 1}", help=help)
        return places[0]


def new_axes(glyph: str, example: str) -> Callable[[Use], Attrs]:
    """Make a `configure` for a source: its own arguments, and the `shape` that brackets list."""
    return lambda use: {**use.own, "shape": use.bracket_sizes(glyph, example)}


def without_ones(use: Use) -> tuple[str, ...]:
    """How the one of two operands that has axes of 1 more gets the shape of the other."""
    shapes = [type_.shape for type_ in use.types[:2]]
    plain = [tuple(dim for dim in shape if dim != ONE) for shape in shapes]
    if plain[0] != plain[1] or plain[0] not in shapes:
        return ()
    fewer = use.spell(plain[0])
    if shapes[0] == plain[0]:
        return (f"R removes an axis of 1: put the second operand into R, `(… -> R : {fewer})`",)
    return (f"R removes an axis of 1: write `-> R : {fewer}` before it",)


def equal_shapes(message: str, sign: str = "") -> Callable[[Use], Attrs]:
    """A `configure` that refuses two operands of different shapes, for which `message` has places.

    The help for those of a sign says how they get one shape.
    """

    def configure(use: Use) -> Attrs:
        shapes = use.types[0].shape, use.types[1].shape
        if shapes[0] != shapes[1]:
            first, second = map(use.spell, shapes)
            notes = {0: f"this is {first}", 1: f"this is {second}"}
            help = unequal_operands(sign, *shapes, use.spell) if sign else without_ones(use)
            raise Misuse(message.format(first, second), notes, help)
        return use.own

    return configure


# Conditions of a use that only numbers can settle.


@dataclass(frozen=True, slots=True)
class WindowCount:
    """The number of windows that a label gives an axis, and what decides how many fit."""

    given: Dim
    axis: Dim
    room: Dim  # for starts of windows behind the first
    stride: Dim


@dataclass(frozen=True, slots=True)
class AtMost:
    """A condition of a use that only numbers can settle: ``S <= S_max``, and why it must hold."""

    smaller: Dim
    larger: Dim
    why: str
    windows: WindowCount | None = None


# Windows of operators: their sizes from the arguments of a use, what is checked, both primitives.
#
# An axis of length H has ``H' = floor((H + pads - dilation (k - 1) - 1) / stride) + 1``
# windows of k elements. Sizes are exact, so the stride is taken to divide H; a label may say
# otherwise, and is checked against the numbers.


Cut = tuple[Dim, ...]  # the fields of `Windows`, in order

STRIDE: Final = Length("stride", optional=True)
PAD: Final = Length("pad", optional=True)
DILATION: Final = Length("dilation", optional=True)
SIDE: Final = Word("side", ("both", "causal"))
OWN: Final[tuple[Own, ...]] = (STRIDE, PAD, DILATION, SIDE)


@dataclass(frozen=True, slots=True)
class Cutting:
    """Describe the windows of a use: their sizes, and the zeros at both ends of the axis."""

    width: Dim
    stride: Dim
    dilation: Dim
    before: Dim
    behind: Dim

    @classmethod
    def of(cls, use: Use, width: Dim, stride: Dim = ONE) -> Cutting:
        """From the own arguments, where `stride` is the usual one."""
        given: dict[str, Any] = {"k": width, **use.own}
        for name, least in (("k", 1), ("stride", 1), ("dilation", 1), ("pad", 0)):
            dim = given.get(name)
            if isinstance(dim, Dim) and dim.constant is not None and dim.constant < least:
                raise Misuse(f"{name} of windows is at least {least}, not {dim}")
        dilation = given.get("dilation") or ONE
        pad: Dim | None = given.get("pad")
        ends = (pad or ZERO, pad or ZERO)
        if given.get("side") == "causal":
            if pad is not None:
                help = ("leave pad out: causal windows get as many zeros as they reach back",)
                raise Misuse("causal windows have all their zeros at the front", help=help)
            ends = (dilation * (width - 1), ZERO)
        return cls(width, given.get("stride") or stride, dilation, *ends)

    @property
    def span(self) -> Dim:
        """The positions from the first element of a window to its last."""
        return self.dilation * (self.width - 1) + 1

    def count(self, length: Dim) -> Dim:
        """The number of windows of an axis, rounded down where the numbers are known."""
        room = self.before + self.behind - self.span
        stride = self.stride.constant
        if stride is None or stride == 1 or room.constant is None:
            return (length + room) / self.stride + 1
        if length.constant is not None:
            return number((length.constant + room.constant) // stride + 1)
        return length / self.stride + (room.constant // stride + 1)

    def length(self, count: Dim) -> Dim:
        """Return the shortest axis that has this number of windows."""
        return self.stride * (count - 1) + self.span - self.before - self.behind

    def cut(self, length: Dim, count: Dim) -> Cut:
        """The windows of an axis."""
        return (length, count, self.width, self.stride, self.dilation, self.before)


def configure_windows(
    use: Use,
    numbers: Sequence[Cutting],
    axes: Sequence[int],
    *,
    new: bool = False,
    channels: Dim | None = None,
) -> Attrs:
    """Return the attributes of a use that cuts axes of its first operand, in their order.

    The number of windows is what the label says, else what the numbers give; a label that has
    another axis wrong says nothing. The result has an axis more for each if the elements are `new`
    axes, and other `channels` where these are given.
    """
    shape = use.types[0].shape
    lengths = tuple(shape[axis] for axis in axes)
    try:
        counts = tuple(each.count(n) for each, n in zip(numbers, lengths, strict=True))
    except DimError as problem:
        raise Misuse(f"the number of windows is no size: {problem}") from None
    result: list[Dim | None] = []
    for place, dim in enumerate(shape, -len(shape)):
        width = numbers[axes.index(place)].width if place in axes else None
        result += [dim] if width is None else [None, width][: 1 + new]
    result[-1:] = [channels or result[-1]]
    target = use.target or ()
    if len(target) == len(result) and all(
        dim is None or dim == said for dim, said in zip(result, target, strict=True)
    ):
        counts = tuple(said for dim, said in zip(result, target, strict=True) if dim is None)
    return window_attributes(use, numbers, axes, lengths, counts)


def pool_configure(glyph: str) -> Callable[[Use], Attrs]:
    """Make a `configure` for windows of the axes in brackets, side by side without a stride."""

    def configure(use: Use) -> Attrs:
        if use.axes is None:
            help = (f"name it: {glyph}[{use.window_axes()}](k=2)",)
            raise Misuse(f"{glyph} does not know along which axis", help=help)
        axes = sorted(use.named_axes())
        numbers = Cutting.of(use, use.own["k"], stride=use.own["k"])
        return configure_windows(use, [numbers] * len(axes), axes)

    return configure


def window_attributes(
    use: Use, numbers: Sequence[Cutting], axes: Sequence[int], lengths: Shape, counts: Shape
) -> Attrs:
    """The attributes of an operator that cuts axes; `window_facts` and `cut_windows` read them."""
    every = tuple(zip(numbers, lengths, counts, strict=True))
    spans = dict.fromkeys(str(each.span) for each in numbers)
    for each, length, count in every:
        _check(use, each, length, count, tuple(spans))
    cuts = tuple(each.cut(length, count) for each, length, count in every)
    return {"axes": tuple(axes), "cuts": cuts, "behind": tuple(each.behind for each in numbers)}


def _check(use: Use, numbers: Cutting, length: Dim, count: Dim, spans: Sequence[str]) -> None:
    """Refuse a number of windows that no sizes can have; `spans` are those along all axes."""
    short = (length + numbers.before + numbers.behind - numbers.span).constant
    axis = f"an axis of {use.sizes.fold(length)}"
    if short is not None and short < 0:
        raise Misuse(f"a window over {numbers.span} positions does not fit in {axis}")
    beyond = [(a.smaller - a.larger).constant for a in _facts(numbers, length, count)]
    if any(number is not None and number > 0 for number in beyond):
        has = use.sizes.fold(numbers.count(length))
        span = numbers.span.constant or 0
        kept = "keeps the length" if numbers.stride == ONE else f"gives {use.sizes.fold(count)}"
        fits = span % 2 and numbers.stride * count == length
        help = (f"pad={(span - 1) // 2} {kept}",) if fits else ()
        if span and span % 2 == 0 and count == length and numbers.stride == ONE:
            help = (f"a window over {span} positions keeps the length if it is causal",)
        if help and len(spans) > 1:
            several = " and ".join(spans)
            help = (f"pad is one number for all axes: windows over {several} keep one length",)
        raise Misuse(f"{axis} has {has} windows, not {use.sizes.fold(count)}", help=help)


def _facts(numbers: Cutting, length: Dim, count: Dim) -> tuple[AtMost, AtMost]:
    padded = length + numbers.before + numbers.behind
    used = numbers.stride * (count - 1) + numbers.span
    miss = WindowCount(count, length, padded - numbers.span, numbers.stride)
    return (
        AtMost(used, padded, "windows stay within their axis and its zeros", miss),
        AtMost(padded, used + numbers.stride - 1, "every window that fits is taken", miss),
    )


def window_facts(types: Sequence[TensorType], attrs: Attrs) -> tuple[AtMost, ...]:
    """Return the constraints between windows and their axes that some sizes may violate."""
    del types
    found: list[AtMost] = []
    for sizes, behind in zip(attrs["cuts"], attrs["behind"], strict=True):
        length, count, width, stride, dilation, before = sizes
        cutting = Cutting(width, stride, dilation, before, behind)
        found += [fact for fact in _facts(cutting, length, count) if not _holds(fact)]
    return tuple(found)


def _holds(fact: AtMost) -> bool:
    over = (fact.smaller - fact.larger).constant
    return over is not None and over <= 0


def cut_windows(x: Expr, axes: Sequence[int], cuts: Sequence[Cut]) -> Expr:
    """Cut windows from each axis, with their elements as a new axis after it."""
    for axis, sizes in zip(axes, cuts, strict=True):
        x = window(x, axis, Windows(*sizes))
    return x


def overlap_windows(windows: Expr, axes: Sequence[int], cuts: Sequence[Cut]) -> Expr:
    """The transpose of `cut_windows`: windows laid over each other and summed."""
    for axis, sizes in reversed(tuple(zip(axes, cuts, strict=True))):
        windows = overlap(windows, axis, Windows(*sizes))
    return windows
