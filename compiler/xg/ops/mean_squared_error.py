"""Mean squared error (seed 001, 3.1: a loss of predictions and targets)."""

from __future__ import annotations

import math
from typing import Final

from xg.ir.conventions import Convention
from xg.ir.dim import product, size
from xg.ir.op import Description, Op
from xg.ir.prim import Expr, all_axes, reduce_mean, reduce_sum
from xg.ir.use import Attrs, Data, Word, equal_shapes


def forward(y: Expr, t: Expr, *, reduction: str) -> Expr:
    """``(y - t)²``, averaged or summed over all elements."""
    squares = (y - t) ** 2
    reduce = reduce_mean if reduction == "mean" else reduce_sum
    return reduce(squares, all_axes(squares), keep=False)


def adjoint(dloss: Expr, y: Expr, t: Expr, *, reduction: str) -> tuple[Expr, Expr]:
    """Twice the difference, for each element's share."""
    share = dloss / size(product(y.shape)) if reduction == "mean" else dloss
    dy = (2.0 * (y - t) * share).named("dy")
    return dy, -dy


def describe(attrs: Attrs) -> Description:
    """Averaged or summed."""
    mean = attrs["reduction"] == "mean"
    return Description(
        f"{'mean' if mean else 'sum'} of squared differences",
        f"loss = {'mean' if mean else 'Σ'}((Y - t)²)",
        f"dY = 2 (Y - t){' / n' if mean else ''} · dloss, dt = -dY",
    )


CONVENTIONS: Final = (
    Convention("empty axis", "the mean of no errors is NaN", "y -> MSE<-t",
        {"y [B]": (), "t [B]": ()}, math.nan, {"y": (), "t": ()}, "F.mse_loss(y, t)", "loss []"),
    Convention("half type", "errors are added in float32", "y -> MSE(sum)<-t",
        {"y [B]": (1.0,) * 4096, "t [B]": (0.0,) * 4096}, 4096.0,
        {"y": (2.0,) * 4096, "t": (-2.0,) * 4096}, 'F.mse_loss(y, t, reduction="sum")', "loss []",
        dtype="bfloat16"),
)  # fmt: skip

OP: Final = Op(
    glyph="MSE",
    name="mean_squared_error",
    family="loss",
    data=(Data("y"), Data("t")),
    own=(Word("reduction", ("mean", "sum")),),
    outputs=("loss",),
    sums_over_ranks=True,
    forward=forward,
    configure=equal_shapes("MSE compares {} with targets {}"),
    describe=describe,
    adjoint=adjoint,
    conventions=CONVENTIONS,
    meaning="mean of squared differences",
    formula="loss = mean((Y - t)²)",
    gradient="dY = 2 (Y - t) / n · dloss, dt = -dY",
    source="seed 001, 3.1",
)
