"""Windows of operators: their sizes from the arguments of a use, what is checked, both primitives.

An axis of length H has ``H' = floor((H + pads - dilation (k - 1) - 1) / stride) + 1`` windows of k
elements. Sizes are exact, so the stride is taken to divide H; a label may say otherwise, and is
checked against the numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from xg.diagnostics.lazy_dataclass import dataclass
from xg.ir.dim import ONE, ZERO, Dim, DimError, number
from xg.ir.op import AtMost, WindowCount
from xg.ir.prim import Expr, Windows, overlap, window
from xg.ir.tensor import Shape, TensorType
from xg.ir.use import Attrs, Length, Misuse, Own, Use, Word

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
    return attributes(use, numbers, axes, lengths, counts)


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


def attributes(
    use: Use, numbers: Sequence[Cutting], axes: Sequence[int], lengths: Shape, counts: Shape
) -> Attrs:
    """The attributes of an operator that cuts axes; `facts` and `cut` read them."""
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


def facts(types: Sequence[TensorType], attrs: Attrs) -> tuple[AtMost, ...]:
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


def cut(x: Expr, axes: Sequence[int], cuts: Sequence[Cut]) -> Expr:
    """Cut windows from each axis, with their elements as a new axis after it."""
    for axis, sizes in zip(axes, cuts, strict=True):
        x = window(x, axis, Windows(*sizes))
    return x


def laid(windows: Expr, axes: Sequence[int], cuts: Sequence[Cut]) -> Expr:
    """The transpose of `cut`: windows laid over each other and summed."""
    for axis, sizes in reversed(tuple(zip(axes, cuts, strict=True))):
        windows = overlap(windows, axis, Windows(*sizes))
    return windows
