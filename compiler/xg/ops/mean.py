"""Mean over named axes: the pooled sentence of a classifier, the load of an expert."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

from xg.ir.conventions import Convention
from xg.ir.dim import product, size
from xg.ir.op import Gradient, Op, Term
from xg.ir.prim import Expr, reduce_mean
from xg.ir.tensor import Shape
from xg.ir.use import Attrs, Use


def configure(use: Use) -> Attrs:
    """`axes` counted from the end, and the shape of the `operand`."""
    return {"axes": use.reduced_axes("mean"), "operand": use.types[0].shape}


def forward(x: Expr, *, axes: tuple[int, ...], operand: Shape) -> Expr:
    """The axes are gone from the result; `operand` serves the gradient only."""
    return reduce_mean(x, axes, keep=False)


def pullback(attrs: Attrs) -> Mapping[str, Gradient]:
    """The gradient, divided among the positions it is repeated to."""
    shape: Shape = attrs["operand"]
    axes: tuple[int, ...] = attrs["axes"]
    gone = tuple(sorted(axis % len(shape) for axis in axes))
    dims = tuple(dim for i, dim in enumerate(shape) if i not in gone)
    share = Term("scale", ("d",), {"c": 1 / size(product(shape[i] for i in gone))})
    spread = {"operand": dims, "atoms": shape, "new": gone, "shape": shape}
    return {"x": Term("BC", (share,), spread)}


CONVENTIONS: Final = (
    Convention("empty axis", "the mean of no numbers is NaN", "x -> mean[D]",
        {"x [S, D]": ((), ())}, (math.nan, math.nan), {"x": ((), ())}, "x.mean(-1)", "y [S]"),
    Convention("half type", "a mean is summed in float32: the sum may be larger than 65,504",
        "x -> mean[S]", {"x [S, D]": ((30000.0, 1.0),) * 4096}, (30000.0, 1.0),
        {"x": ((2.0**-12, 2.0**-12),) * 4096}, "x.mean(0)", "y [D]", dtype="float16"),
)  # fmt: skip

OP: Final = Op(
    glyph="mean",
    name="mean",
    family="reduce",
    forward=forward,
    configure=configure,
    brackets="axes",
    needs_axes=True,
    pullback=pullback,
    conventions=CONVENTIONS,
    meaning="averages over the axes in brackets, and removes them",
    formula="Y = Σ X / n over the axes named, n positions",
    gradient="dX = dY / n repeated along them",
    source="seed 003: the mean word of a sentence",
    legend="mean over axes",
)
