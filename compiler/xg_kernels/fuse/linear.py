"""Fuse a product with a matrix and the bias after it, ``• ⊕<-BC(b)``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from xg.ir.dim import Dim
from xg.ir.graph import Apply, Value
from xg.ir.op import Gradient, Op, Term
from xg.ir.prim import Expr, contract
from xg.ir.use import Attrs, Data, Use
from xg.passes.ring.attention import Fusion, Inside, Match


def configure(use: Use) -> Attrs:
    """Index letters, as for the product."""
    leading = "abcdefgh"[: len(use.types[0].shape) - 2]
    return {"spec": f"{leading}ik,kj->{leading}ij"}


def forward(x: Expr, w: Expr, b: Expr, *, spec: str) -> Expr:
    """``x [.., i, k] • w [k, j] + b [j]``."""
    return contract(x, w, spec) + b


def pullback(attrs: Attrs) -> Mapping[str, Gradient]:
    """The gradients of the product, and the cotangent summed over the rows for the bias."""
    inputs, out = str(attrs["spec"]).split("->")
    x, w = inputs.split(",")
    rows = tuple(range(-len(out), -1))
    return {
        "x": Term("•", ("d", "w"), {"spec": f"{out},{w}->{x}"}),
        "w": Term("•", ("x", "d"), {"spec": f"{x},{out}->{w}"}),
        "b": Term("sum", ("d",), {"axes": rows}),
    }


def match(last: Apply, inside: Inside) -> Match | None:
    """``X •<=W ⊕<-BC(b)``, where b is repeated for each row."""
    product = inside.maker(last.inputs[0], "•")
    repeat = inside.maker(last.inputs[1], "BC")
    if product is None or repeat is None:
        return None
    x, w = product.inputs
    (b,) = repeat.inputs
    if len(inside.types[w].shape) != 2 or not _per_column(repeat, inside, b):
        return None
    return Match((product, repeat, last), (x, w, b), {"spec": product.attrs["spec"]})


def _per_column(repeat: Apply, inside: Inside, b: Value) -> bool:
    """Whether a BC repeats a vector along all axes but the last."""
    atoms: tuple[Dim, ...] = repeat.attrs["atoms"]
    leading = tuple(range(len(atoms) - 1))
    vector = len(inside.types[b].shape) == 1
    return vector and repeat.attrs["new"] == leading and repeat.attrs["shape"] == atoms


OP: Final = Op(
    glyph="Linear",
    name="linear",
    family="matmul",
    data=(Data("x"), Data("w"), Data("b")),
    forward=forward,
    configure=configure,
    pullback=pullback,
    meaning="a product with a matrix, plus a bias in every row",
    formula="Y = X W + b",
    gradient="dX = dY W⊤, dW = X⊤ dY, db = Σ dY over the rows",
    source="seed 001, 4.3.1 and 4.3.2",
)
FUSION: Final = Fusion(OP, "⊕", match)
