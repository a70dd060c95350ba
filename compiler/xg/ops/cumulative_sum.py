"""Running sums along an axis: decays, positions, integrals."""

from __future__ import annotations

from typing import Final

from xg.ir.conventions import Convention
from xg.ir.op import Op
from xg.ir.prim import Expr, cumsum
from xg.ir.use import Attrs, Misuse, Use


def configure(use: Use) -> Attrs:
    """`axis` counted from the end."""
    if not use.types[0].shape:
        raise Misuse("cumsum needs an axis to run along", {0: "this is a scalar"})
    return {"axis": use.one_axis("cumsum runs along one axis", "name it: cumsum[S]")}


def forward(x: Expr, *, axis: int) -> Expr:
    """The sum of each position of the axis and all before it."""
    return cumsum(x, axis)


CONVENTIONS: Final = (
    Convention("empty axis", "an empty axis gives an empty result", "x -> cumsum[D]", {"x [D]": ()},
        (), {"x": ()}, "x.cumsum(-1)"),
    Convention("half type", "sums are computed in float32, and rounded once",
        "x -> cumsum[D] -> pick[D](4095)", {"x [D]": (1.0,) * 4096}, 4096.0, {"x": (1.0,) * 4096},
        "x.cumsum(-1)[-1]", "y []", dtype="float16"),
)  # fmt: skip

OP: Final = Op(
    glyph="cumsum",
    name="cumulative_sum",
    family="reduce",
    forward=forward,
    configure=configure,
    brackets="axes",
    keeps_shape=True,
    conventions=CONVENTIONS,
    meaning="running sum along the axis in brackets: each position plus all positions before it",
    formula="Y[.., i, ..] = Σ_{j ≤ i} X[.., j, ..]",
    gradient="dX[.., i, ..] = Σ_{j ≥ i} dY[.., j, ..]",
    source="Yang et al. 2023: gated linear attention",
    legend="running sum along an axis",
)
