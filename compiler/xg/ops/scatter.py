"""Sums at numbered positions of a new axis: the transpose of gather."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from xg.ir.conventions import Convention
from xg.ir.dim import Dim
from xg.ir.op import Gradient, Op, Term
from xg.ir.prim import Expr, scatter_add
from xg.ir.use import Attrs, Data, Misuse, Use


def configure(use: Use) -> Attrs:
    """Return the axis to make, the first axis in brackets, and the length of the new axis."""
    if use.axes is None:
        raise Misuse(
            "scatter does not know which axes to remove", help=("name them: scatter[k]<-ids",)
        )
    x, ids = use.types
    if x.shape[: len(ids.shape)] != ids.shape:
        raise Misuse(
            f"scatter moves {use.spell(x.shape)} by numbers {use.spell(ids.shape)}",
            {1: "the first axes of both must be the same"},
        )
    axes, behind = sorted(use.named_axes()), len(x.shape) - len(ids.shape)
    if axes != list(range(axes[0], -behind)):
        last = use.sizes.fold(ids.shape[-1]) if ids.shape else "none"
        raise Misuse(f"scatter removes the last axes that the numbers have, up to {last}")
    return {"axis": -behind - 1, "places": axes[0], "rows": ids.range}


def forward(x: Expr, ids: Expr, *, axis: int, places: int, rows: Dim) -> Expr:
    """``Y[b, v, ..] = Σ_i X[b, i, ..]`` over ``ids[b, i] = v``."""
    del axis  # for the gradient
    return scatter_add(x, ids, rows, x.rank + places)


def pullback(attrs: Attrs) -> Mapping[str, Gradient]:
    """Each element takes the gradient of the position that it was added to."""
    return {"x": Term("gather", ("d", "ids"), dict(attrs))}


CONVENTIONS: Final = (
    Convention("index outside",
        "xg refuses an index outside the axis; under jax.jit its number is added nowhere",
        "x -> scatter[K]<-ids", {"x [K]": (3.0, 5.0), "ids [K] in 2": (0, 2)},
        torch="x.new_zeros(2).scatter_add(0, ids, x)", result="y [2]",
        refused="is 2, expected integers from 0 to 1", others={"jax jit": (3.0, 0.0)}),
    Convention("half type", "numbers are added in float32, and rounded once",
        "x -> scatter[K]<-ids", {"x [K]": (1.0,) * 4096, "ids [K] in 2": (0,) * 4096},
        (4096.0, 0.0), {"x": (1.0,) * 4096}, "x.new_zeros(2).scatter_add(0, ids, x)", "y [2]",
        dtype="bfloat16"),
)  # fmt: skip

OP: Final = Op(
    glyph="scatter",
    name="scatter",
    family="layout",
    data=(Data("x"), Data("ids", "int")),
    forward=forward,
    configure=configure,
    brackets="axes",
    pullback=pullback,
    conventions=CONVENTIONS,
    meaning="adds each element to the position that its integer names; a new axis, as long as the "
    "range of the integers, replaces the axes in brackets",
    formula="Y[b, v, ..] = Σ of X[b, i, ..] where ids[b, i] = v",
    gradient="dX = gather(dY): what each was added to",
    source="torch.scatter_add; jax.ops.segment_sum",
    legend="sum at given places",
)
