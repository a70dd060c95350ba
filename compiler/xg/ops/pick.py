"""One position of an axis, which is gone then: the class token of ViT."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from xg.ir.dim import ZERO, Dim
from xg.ir.op import Op
from xg.ir.prim import Expr, cut, reshape
from xg.ir.tensor import TensorType
from xg.ir.use import AtMost, Attrs, Data, Length, Misuse, Use


def configure(use: Use) -> Attrs:
    """`axis` counted from the end, and `index`."""
    axis = use.one_axis("pick takes one position of one axis", "name it: pick[S](0)")
    length, index = use.types[0].shape[axis], use.position("index", axis)
    left, place = (length - index).constant, index.constant
    if (left is not None and left < 1) or (place is not None and place < 0):
        last, written = use.sizes.fold(length - 1), use.sizes.fold(use.own["index"])
        raise Misuse(
            f"pick takes position {written} of {use.sizes.fold(length)}",
            help=(f"positions count from 0, the last one is {last}, or -1",),
        )
    return {"axis": axis, "index": index}


def facts(types: Sequence[TensorType], attrs: Attrs) -> tuple[AtMost, ...]:
    """The position must be there."""
    axis: int = attrs["axis"]
    length = types[0].shape[axis]
    index: Dim = attrs["index"]
    why = "pick takes a position of its axis"
    first = (AtMost(ZERO, index, why),) if index.may_be_negative else ()
    return (*first, AtMost(index + 1, length, why))


def forward(x: Expr, *, axis: int, index: Dim) -> Expr:
    """``Y = X[.., index, ..]``."""
    one = cut(x, axis, index, index + 1)
    gone = axis % x.rank
    return reshape(one, (*x.shape[:gone], *x.shape[gone + 1 :]))


OP: Final = Op(
    glyph="pick",
    name="pick",
    family="layout",
    data=(Data("x", "any"),),
    own=(Length("index"),),
    forward=forward,
    configure=configure,
    brackets="axes",
    facts=facts,
    meaning="takes one position along the axis in brackets, and removes the axis; -1 is the last",
    formula="Y = X[.., i, ..]",
    gradient="dX = dY at position i, 0 elsewhere",
    source="Dosovitskiy et al. 2020: the class token",
    legend="one place of an axis",
)
