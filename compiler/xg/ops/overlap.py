"""Windows laid over each other and summed: the transpose of `window`, and what upsamples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from xg.ir.conventions import Convention
from xg.ir.dim import Dim
from xg.ir.op import Gradient, Op, Term
from xg.ir.prim import Expr
from xg.ir.use import (
    OWN,
    Attrs,
    Cut,
    Cutting,
    Misuse,
    Use,
    overlap_windows,
    window_attributes,
    window_facts,
)


def configure(use: Use) -> Attrs:
    """`axes` of the result, counted from the end, and the windows of each."""
    place = use.one_axis("overlap sums windows of one axis", "name it: overlap[S](stride=2)")
    shape = use.types[0].shape
    if place == -1:
        elements = "the elements of each window are the axis after it"
        raise Misuse(f"{use.spell(shape)} has no axis after the windows", help=(elements,))
    numbers = Cutting.of(use, shape[place + 1])
    length, count = numbers.length(shape[place]), shape[place]
    if use.target is not None and len(use.target) == len(shape) - 1:
        length = use.target[place + 1]
    return window_attributes(use, [numbers], (place + 1,), (length,), (count,))


def forward(x: Expr, *, axes: Sequence[int], cuts: Sequence[Cut], behind: Sequence[Dim]) -> Expr:
    """``Y[.., p, ..]`` is the sum of all ``X[.., j, i, ..]`` whose position is p."""
    del behind  # for the facts
    return overlap_windows(x, axes, cuts)


def pullback(attrs: Attrs) -> Mapping[str, Gradient]:
    """The gradient's windows."""
    return {"x": Term("window", ("d",), dict(attrs))}


CONVENTIONS: Final = (
    Convention("half type", "windows are added in float32: in bfloat16, 256 + 1 is 256",
        "x -> overlap[J](stride=1)",
        {"x [J, K]": ((0.0, 0.0, 256.0), (0.0, 1.0, 0.0), (1.0, 0.0, 0.0))},
        (0.0, 0.0, 258.0, 0.0, 0.0), {"x": ((1.0, 1.0, 1.0),) * 3},
        "torch.stack([*map(torch.sum, map(x.flip(1).diagonal, (2, 1, 0, -1, -2)))])",
        "y [J + K - 1]",
        dtype="bfloat16"),
)  # fmt: skip

OP: Final = Op(
    glyph="overlap",
    name="overlap",
    family="reduce",
    forward=forward,
    configure=configure,
    brackets="axes",
    facts=window_facts,
    pullback=pullback,
    own=OWN,
    meaning="the reverse of window: sums overlapping windows, the axis in brackets and the axis "
    "after it; if several lengths fit, the label decides",
    formula="Y[.., p, ..] = Σ X[.., j, i, ..] over j·stride + i·dilation - pad = p",
    gradient="dX = window(dY)",
    source="the transpose of window",
    legend="sum of overlapping windows",
    conventions=CONVENTIONS,
)
