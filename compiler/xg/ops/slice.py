"""A stretch of an axis: what C's gradient takes back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from xg.ir.dim import Dim
from xg.ir.op import AtMost, Op
from xg.ir.prim import Expr, cut
from xg.ir.tensor import TensorType
from xg.ir.use import Attrs, Data, Length, Misuse, Use


def configure(use: Use) -> Attrs:
    """`axis` counted from the end, `start` and `stop`."""
    axes = use.named_axes()
    if len(axes) != 1:
        raise Misuse("slice takes a stretch of one axis", help=("name it: slice[S](0, n)",))
    length = use.types[0].shape[axes[0]]
    start, stop = use.own["start"], use.own["stop"]
    for part, whole in ((start, stop), (stop, length)):
        beyond = (part - whole).constant
        if beyond is not None and beyond > 0:
            first, last, size = (str(use.sizes.fold(dim)) for dim in (start, stop, length))
            raise Misuse(f"slice takes positions {first} to {last} of {size}")
    return {"axis": axes[0], "start": start, "stop": stop}


def facts(types: Sequence[TensorType], attrs: Attrs) -> tuple[AtMost, ...]:
    """The stretch must be there."""
    axis: int = attrs["axis"]
    length = types[0].shape[axis]
    why = "slice takes a stretch of its axis"
    return AtMost(attrs["start"], attrs["stop"], why), AtMost(attrs["stop"], length, why)


def forward(x: Expr, *, axis: int, start: Dim, stop: Dim) -> Expr:
    """Positions `start` … `stop` - 1."""
    return cut(x, axis, start, stop)


OP: Final = Op(
    glyph="slice",
    name="slice",
    family="layout",
    data=(Data("x", "any"),),
    own=(Length("start"), Length("stop")),
    forward=forward,
    configure=configure,
    facts=facts,
    meaning="takes the positions a … b-1 of the axis in brackets",
    formula="Y = X[.., a : b, ..]",
    gradient="dX = dY at positions a … b-1, 0 elsewhere",
    source="the gradient of C",
)
