"""The two primitives of windows: an axis cut into stretches that may overlap, and their sum."""

from __future__ import annotations

from typing import Final

from xg.diagnostics.lazy_dataclass import dataclass
from xg.ir.dim import ONE, ZERO, Dim
from xg.ir.prim import Attr, Expr, ShapeError
from xg.ir.tensor import spell_shape

WINDOW_SIZES: Final = ("length", "count", "width", "stride", "dilation", "before")


@dataclass(frozen=True, slots=True)
class Windows:
    """How an axis of some length is cut into windows, which may overlap.

    Element i of window j is position ``j stride + i dilation - before`` of the axis.
    """

    length: Dim
    count: Dim
    width: Dim
    stride: Dim = ONE
    dilation: Dim = ONE
    before: Dim = ZERO

    @classmethod
    def of(cls, expr: Expr) -> Windows:
        """Those of a window or an overlap."""
        dims = [expr.attr(name) for name in WINDOW_SIZES]
        return cls(*(dim for dim in dims if isinstance(dim, Dim)))

    def attrs(self, axis: int) -> tuple[tuple[str, Attr], ...]:
        """The attributes of the primitives; windows are along `axis`, their number before it."""
        sizes = (self.length, self.count, self.width, self.stride, self.dilation, self.before)
        return (("axis", axis), *zip(WINDOW_SIZES, sizes, strict=True))


def window(x: Expr, axis: int, cut: Windows) -> Expr:
    """Each position of an axis replaced by its neighbourhood, a new axis behind it.

    Zeros are beyond the ends of `x`. The axis is counted from the end; in the result the new one
    has its place.
    """
    if x.shape[axis] != cut.length:
        raise ShapeError(f"windows of {cut.length} positions, of {spell_shape(x.shape)}")
    front, back = x.shape[:axis], x.shape[axis:][1:]
    return Expr("window", (x,), (*front, cut.count, cut.width, *back), x.kind, cut.attrs(axis))


def overlap(windows: Expr, axis: int, cut: Windows) -> Expr:
    """The transpose of window: the sum of windows where they lie over each other."""
    if windows.shape[: axis + 1 or None][-2:] != (cut.count, cut.width):
        raise ShapeError(f"{cut.count} windows of {cut.width}, of {spell_shape(windows.shape)}")
    front, back = windows.shape[: axis - 1], windows.shape[axis:][1:]
    return Expr("overlap", (windows,), (*front, cut.length, *back), "float", cut.attrs(axis))
