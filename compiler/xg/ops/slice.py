"""A stretch of an axis: what C's gradient takes back."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from xg.ir.dim import ZERO, Dim
from xg.ir.op import Op
from xg.ir.prim import Expr, cut
from xg.ir.tensor import TensorType
from xg.ir.use import AtMost, Attrs, Data, Length, Misuse, Use


def configure(use: Use) -> Attrs:
    """`axis` counted from the end, `start` and `stop`."""
    axis = use.one_axis("slice takes a stretch of one axis", "name it: slice[S](0, n)")
    length = use.types[0].shape[axis]
    start, stop = use.position("start", axis), use.position("stop", axis)
    for part, whole in ((ZERO, start), (start, stop), (stop, length)):
        beyond = (part - whole).constant
        written = use.own["start"].constant, use.own["stop"].constant
        nothing = written[1] == 0 and (written[0] or 0) < 0  # -2 to 0, from the end to the start
        if nothing or (beyond is not None and beyond > 0):
            ends = use.own["start"], use.own["stop"], length
            first, last, size = (str(use.sizes.fold(dim)) for dim in ends)
            help = (
                f"positions count from 0, slice[{size}](0, {size}) is all of them",
                f"negative ones count from the end, slice[{size}](-2, {size}) is the last two",
            )
            raise Misuse(f"slice takes positions {first} to {last} of {size}", help=help)
    return {"axis": axis, "start": start, "stop": stop}


def facts(types: Sequence[TensorType], attrs: Attrs) -> tuple[AtMost, ...]:
    """The stretch must be there."""
    axis: int = attrs["axis"]
    length = types[0].shape[axis]
    why = "slice takes a stretch of its axis"
    ends: list[Dim] = [attrs["start"], attrs["stop"], length]
    first = [ZERO] if ends[0].may_be_negative else []
    return tuple(AtMost(*pair, why) for pair in pairwise([*first, *ends]))


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
    meaning="takes positions a … b-1 along the axis in brackets; negative numbers count from the "
    "end",
    formula="Y = X[.., a : b, ..]",
    gradient="dX = dY at positions a … b-1, 0 elsewhere",
    source="the gradient of C",
    legend="part of an axis",
)
