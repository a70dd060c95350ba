"""Look up positions of an axis by number, for each place of the leading axes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

from xg.ir.conventions import Convention
from xg.ir.dim import Dim
from xg.ir.op import Gradient, Op, Term
from xg.ir.prim import Expr, gather
from xg.ir.use import Attrs, Data, Misuse, Use


def configure(use: Use) -> Attrs:
    """The axis that ids point along, the first of ids' own axes in its place, and its length."""
    axis = use.one_axis("gather takes positions of one axis", "name it: gather[S]<-ids")
    x, ids = use.types
    batch = len(x.shape) + axis
    if x.shape[:batch] != ids.shape[:batch]:
        raise Misuse(
            f"gather takes positions of each {use.spell(x.shape[batch:])}",
            {1: f"these are {use.spell(ids.shape)}, not [{use.spell(x.shape[:batch])[1:-1]}, ..]"},
            (_elsewhere(use, axis) or "repeat the numbers with BC if all take the same",),
        )
    length = x.shape[axis]
    if ids.range != length:
        raise Misuse(
            f"gather takes positions of {use.sizes.fold(length)}",
            {1: f"these numbers are not `in {use.sizes.fold(length)}`"},
            tuple(filter(None, (_elsewhere(use, axis),))),
        )
    return {"axis": axis, "places": axis + 1 - len(ids.shape) + batch, "rows": length}


def _elsewhere(use: Use, axis: int) -> str:
    """The axis along which the numbers point, where it is another one."""
    there = use.pointed_at()
    here = use.axis(use.types[0].shape, axis)
    return f"they point along {there}: gather[{there}]<-…" if there not in ("", here) else ""


def forward(x: Expr, ids: Expr, *, axis: int, places: int, rows: Dim) -> Expr:
    """``Y[b, i, ..] = X[b, ids[b, i], ..]``."""
    del places, rows  # for the gradient
    return gather(x, ids, x.rank + axis)


def pullback(attrs: Attrs) -> Mapping[str, Gradient]:
    """The sum of the gradients of every place that took a position."""
    return {"x": Term("scatter", ("d", "ids"), dict(attrs))}


CONVENTIONS: Final = (
    Convention("index outside", "xg refuses an index outside the axis, also -1; under jax.jit it "
        "looks up NaN, and its gradient goes nowhere", "x -> gather[N]<-ids",
        {"x [N]": (3.0, 5.0), "ids [K] in N": (0, -1)}, torch="torch.gather(x, 0, ids)",
        result="y [K]", refused="is -1, expected integers from 0 to 1",
        others={"jax jit": (3.0, math.nan)}),
    Convention("half type", "the gradient of what is read many times is added in float32",
        "x -> gather[N]<-ids -> sum[K]", {"x [N]": (1.0, 1.0), "ids [K] in N": (0,) * 4096}, 4096.0,
        {"x": (4096.0, 0.0)}, "x[ids].sum()", "y []", dtype="bfloat16",
        differs="PyTorch adds in bfloat16 on a CPU, where 256 + 1 is 256: the gradient is 256. On "
        "a GPU it adds in float32, as xg does everywhere."),
)  # fmt: skip

OP: Final = Op(
    glyph="gather",
    name="gather",
    family="layout",
    data=(Data("x"), Data("ids", "int")),
    forward=forward,
    configure=configure,
    brackets="axes",
    pullback=pullback,
    conventions=CONVENTIONS,
    meaning="looks up positions along the axis in brackets by integer; x and the integers share "
    "the axes before it",
    formula="Y[b, i, ..] = X[b, ids[b, i], ..]",
    gradient="dX = scatter(dY): the sum of what was taken from a position",
    source="torch.gather; jax.numpy.take_along_axis",
    legend="entries at given places",
)
