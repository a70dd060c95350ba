"""Where the largest number of an axis is: a prediction."""

from __future__ import annotations

import math
from typing import Final

from xg.ir.conventions import Convention
from xg.ir.op import Op
from xg.ir.prim import Expr, arg_max, reshape
from xg.ir.use import Attrs, Misuse, Use


def configure(use: Use) -> Attrs:
    """`axis` counted from the end, and the `range` of the places: the length of the axis."""
    shape = use.types[0].shape
    if not shape:
        raise Misuse("argmax needs an axis to choose from", {0: "this is a scalar"})
    axis = use.along("argmax chooses along one axis", "name it: argmax[V]").get("axis", -1)
    return {"axis": axis, "range": shape[axis]}


def forward(x: Expr, *, axis: int, range: object) -> Expr:
    """The axis is gone from the result."""
    del range  # for the type
    gone = axis % x.rank
    return reshape(arg_max(x, axis), (*x.shape[:gone], *x.shape[gone + 1 :]))


CONVENTIONS: Final = (
    Convention("tie", "ties go to the first element", "x -> argmax : i\ni -> onehot",
        {"x [D]": (1.0, 3.0, 3.0)}, (0.0, 1.0, 0.0), {}, "F.one_hot(x.argmax(-1), 3) + 0 * x"),
    Convention("infinity", "a NaN is larger than every number", "x -> argmax : i\ni -> onehot",
        {"x [D]": (1.0, math.nan, math.inf)}, (0.0, 1.0, 0.0), {},
        "F.one_hot(x.argmax(-1), 3) + torch.nan_to_num(0 * x)"),
)  # fmt: skip

OP: Final = Op(
    glyph="argmax",
    name="arg_max",
    family="reduce",
    forward=forward,
    configure=configure,
    brackets="axes",
    outputs=("ids",),
    conventions=CONVENTIONS,
    meaning="the index of the largest along the last axis, or the one in brackets; ties go to the "
    "first",
    formula="i = argmax_j X[.., j]",
    gradient="none: integers have no gradient",
    source="the prediction of a classifier",
    legend="the place of the largest",
)
