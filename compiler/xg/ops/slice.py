"""A stretch of an axis: what C's gradient takes back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from xg.ir.dim import ZERO, Dim
from xg.ir.op import AtMost, Op
from xg.ir.prim import Expr, cut
from xg.ir.tensor import TensorType
from xg.ir.use import Attrs, Data, Length, Misuse, Use


def configure(use: Use) -> Attrs:
    """`axis` counted from the end, `start` and `stop`."""
    axis = use.one_axis("slice takes a stretch of one axis", "name it: slice[S](0, n)")
    length = use.types[0].shape[axis]
    start, stop = use.own["start"], use.own["stop"]
    for part, whole in ((ZERO, start), (start, stop), (stop, length)):
        beyond = (part - whole).constant
        if beyond is not None and beyond > 0:
            first, last, size = (str(use.sizes.fold(dim)) for dim in (start, stop, length))
            whole_axis = f"positions count from 0, slice[{size}](0, {size}) is all of them"
            from_end = (stop.constant or 0) < 0
            but = (f"all but the last: slice[{size}]({first}, {size} - {last[1:]})",)
            help = (whole_axis, *(but if from_end else ()))
            raise Misuse(f"slice takes positions {first} to {last} of {size}", help=help)
    return {"axis": axis, "start": start, "stop": stop}


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
    brackets="axes",
    facts=facts,
    meaning="takes the positions a … b-1 of the axis in brackets",
    formula="Y = X[.., a : b, ..]",
    gradient="dX = dY at positions a … b-1, 0 elsewhere",
    source="the gradient of C",
    legend="part of an axis",
)
