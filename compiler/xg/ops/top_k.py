"""The largest of an axis and where they are (Shazeer et al. 2017: the experts of a token)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from xg.ir.conventions import Convention
from xg.ir.dim import Dim
from xg.ir.op import Op
from xg.ir.prim import Expr, gather, top, transpose
from xg.ir.tensor import TensorType
from xg.ir.use import AtMost, Attrs, Length, Misuse, Use


def configure(use: Use) -> Attrs:
    """`axis` counted from the end, `k`, and the `range` of the places: the length of the axis."""
    shape = use.types[0].shape
    if not shape:
        raise Misuse("topk needs an axis to choose from", {0: "this is a scalar"})
    attrs = use.along("topk chooses along one axis", "name it: topk[N_E](2)")
    axis: int = attrs.get("axis", -1)
    length, k = shape[axis], use.own["k"]
    beyond = (k - length).constant
    if (beyond is not None and beyond > 0) or (k.constant is not None and k.constant < 1):
        raise Misuse(f"topk takes {use.sizes.fold(k)} of {use.sizes.fold(length)}")
    return {**attrs, "axis": axis, "range": length}


def facts(types: Sequence[TensorType], attrs: Attrs) -> tuple[AtMost, ...]:
    """There must be as many as are taken."""
    return (AtMost(attrs["k"], attrs["range"], "topk takes no more than there are"),)


def forward(x: Expr, *, k: Dim, axis: int, range: Dim) -> list[Expr]:
    """The values at the places, which no gradient changes."""
    del range  # for the type
    last = [*(i for i in _axes(x) if i != axis % x.rank), axis % x.rank]
    back = sorted(_axes(x), key=lambda i: last[i])
    rows = transpose(x, last)
    ids = transpose(top(rows, k), back)
    values = transpose(gather(rows, transpose(ids, last), x.rank - 1), back)
    return [values, ids]


def _axes(x: Expr) -> list[int]:
    return list(range(x.rank))


CONVENTIONS: Final = (
    Convention("tie", "ties go to the first elements, which take the gradient",
        "x -> topk(2) : v, ids\nx -> gather[D]<-ids", {"x [D]": (1.0, 3.0, 3.0, 3.0)}, (3.0, 3.0),
        {"x": (0.0, 1.0, 1.0, 0.0)}, "torch.topk(x, 2).values", "y [2]",
        differs="PyTorch does not say which of equal numbers it takes, and takes the last ones "
        "here. A router must choose the same experts on every backend."),
    Convention("infinity", "a NaN is larger than every number",
        "x -> topk(2) : v, ids\nx -> gather[D]<-ids", {"x [D]": (1.0, math.inf, math.nan, 3.0)},
        (math.nan, math.inf), {"x": (0.0, 1.0, 1.0, 0.0)}, "torch.topk(x, 2).values", "y [2]"),
)  # fmt: skip

OP: Final = Op(
    glyph="topk",
    name="topk",
    family="reduce",
    own=(Length("k"),),
    outputs=("values", "ids"),
    forward=forward,
    configure=configure,
    brackets="axes",
    facts=facts,
    conventions=CONVENTIONS,
    meaning="the k largest along the last axis, or the one in brackets, largest first, and their "
    "positions; ties go to the first",
    formula="Y[.., j] = X[.., i_j], i_1 … i_k: the places of the largest",
    gradient="dX = dY at the places i_j, 0 elsewhere; the places are constants",
    source="Shazeer et al. 2017",
    legend="the k largest and their places",
)
