"""Sums at numbered positions of a new axis: the transpose of gather."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from xg.ir.dim import Dim
from xg.ir.op import Gradient, Op, Term
from xg.ir.prim import Expr, scatter_add
from xg.ir.use import Attrs, Data, Misuse, Use


def configure(use: Use) -> Attrs:
    """The axis that is made, the first of those in brackets, and the length of the new one."""
    if use.axes is None:
        raise Misuse("scatter does not know which axes go", help=("name them: scatter[k]<-ids",))
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


OP: Final = Op(
    glyph="scatter",
    name="scatter",
    family="layout",
    data=(Data("x"), Data("ids", "int")),
    forward=forward,
    configure=configure,
    brackets="axes",
    pullback=pullback,
    meaning="adds its operand up at the positions that integers point at: the axes in brackets "
    "become one, as long as the range of the integers",
    formula="Y[b, v, ..] = Σ of X[b, i, ..] where ids[b, i] = v",
    gradient="dX = gather(dY): what each was added to",
    source="torch.scatter_add; jax.ops.segment_sum",
    legend="sum at given places",
)
