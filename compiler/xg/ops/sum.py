"""Sum over named axes, drawn Σ in backward figures (seed 001, 4.3.8: db = Σ_{B,S} dY)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from xg.ir.conventions import Convention
from xg.ir.op import Gradient, Op, Term
from xg.ir.prim import Expr, reduce_sum
from xg.ir.tensor import Shape
from xg.ir.use import Attrs, Use


def configure(use: Use) -> Attrs:
    """`axes` counted from the end, and the shape of the `operand`."""
    return {"axes": use.reduced_axes("sum"), "operand": use.types[0].shape}


def forward(x: Expr, *, axes: tuple[int, ...], operand: Shape = ()) -> Expr:
    """The axes are gone from the result; `operand` serves the gradient only."""
    return reduce_sum(x, axes, keep=False)


def pullback(attrs: Attrs) -> Mapping[str, Gradient]:
    """The gradient repeated along the axes that were summed."""
    shape: Shape = attrs["operand"]
    gone = tuple(sorted(axis % len(shape) for axis in attrs["axes"]))
    dims = tuple(dim for i, dim in enumerate(shape) if i not in gone)
    spread = {"operand": dims, "atoms": shape, "new": gone, "shape": shape}
    return {"x": Term("BC", ("d",), spread)}


CONVENTIONS: Final = (
    Convention("empty axis", "the sum of no numbers is 0", "x -> sum[D]", {"x [D]": ()}, 0.0,
        {"x": ()}, "x.sum()", "y []"),
    Convention("half type", "sums are computed in float32, and rounded once", "x -> sum[S]",
        {"x [S, D]": ((1.0, 1.0),) * 4096}, (4096.0, 4096.0), {"x": ((1.0, 1.0),) * 4096},
        "x.sum(0)", "y [D]", dtype="bfloat16"),
    Convention("half type",
        "float16 numbers, too, are added in float32: in float16, 2048 + 1 is 2048", "x -> sum[S]",
        {"x [S, D]": ((1.0, 1.0),) * 4096}, (4096.0, 4096.0), {"x": ((1.0, 1.0),) * 4096},
        "x.sum(0)", "y [D]", dtype="float16"),
)  # fmt: skip

OP: Final = Op(
    glyph="sum",
    name="sum",
    family="reduce",
    forward=forward,
    configure=configure,
    brackets="axes",
    needs_axes=True,
    pullback=pullback,
    conventions=CONVENTIONS,
    meaning="sums over the axes in brackets, and removes them",
    formula="Y = Σ X over the axes named",
    gradient="dX = dY repeated along them",
    source="seed 001, 4.3.8",
    legend="sum over axes",
)
