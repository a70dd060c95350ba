"""One use of an operator in a file: its operands, arguments and brackets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from xg.diagnostics.lazy_dataclass import dataclass
from xg.ir.dim import ONE, Dim, symbol
from xg.ir.tensor import Shape, Sizes, TensorType

Attrs = Mapping[str, Any]  # resolved attributes; each operator knows the types of its own


# ---- what a node takes --------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Data:
    """An operand that arrives by an arrow: floats, integers, or any of them."""

    name: str
    kind: Literal["float", "int", "any"] = "float"
    optional: bool = False


@dataclass(frozen=True, slots=True)
class Tensor:
    """A parameter of the node's own, printed in its box: γ, β, a table."""

    name: str
    optional: bool = False


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

    def refuse_unequal(self, message: str) -> None:
        """Refuse two operands of different shapes; `message` has a place for each shape."""
        first, second = (self.spell(type_.shape) for type_ in self.types[:2])
        if self.types[0].shape != self.types[1].shape:
            notes = {0: f"this is {first}", 1: f"this is {second}"}
            raise Misuse(message.format(first, second), notes)

    def bracketed(self, glyph: str, example: str) -> Shape:
        """New axes, which the brackets list: names of sizes, or ``n=2*D``."""
        if self.axes is None:
            raise Misuse(f"{glyph} needs its axes in brackets", help=(f"for example {example}",))
        axes = [axis for group in self.axes.source for axis in group]
        sizes = (a.size or (symbol(a.name) if a.name else ONE) for a in axes)
        return tuple(map(self.sizes.expand, sizes))

    def along(self, message: str, help: str) -> Attrs:
        """The own arguments, with the `axis` that the brackets name where it is not the last."""
        axis = -1 if self.axes is None else self.one_axis(message, help)
        return self.own if axis == -1 else {**self.own, "axis": axis}

    def listed(self, message: str, help: str) -> Axis | None:
        """The only axis that the brackets list, None without brackets."""
        if self.axes is None:
            return None
        listed = [axis for group in self.axes.source for axis in group]
        if len(listed) != 1:
            raise Misuse(message, help=(help,))
        return listed[0]

    def one_axis(self, message: str, help: str) -> int:
        """The only axis that the brackets list, counted from the end."""
        axes = self.named_axes()
        if len(axes) != 1:
            raise Misuse(message, help=(help,))
        return axes[0]

    def named_axes(self) -> tuple[int, ...]:
        """The axes of the first operand that the brackets list, counted from the end."""
        shape = self.types[0].shape
        if self.axes is None:
            return ()
        numbers = [self._axis(shape, axis) for group in self.axes.source for axis in group]
        if len(set(numbers)) < len(numbers):
            raise Misuse("the brackets name an axis twice")
        return tuple(numbers)

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
            raise Misuse(f"{self.spell(shape)} has {what} {name or 1}", help=help)
        return places[0]
