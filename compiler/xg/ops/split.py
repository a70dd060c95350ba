"""The inverse of C: one tensor cut into parts along an axis."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Final

from xg.ir.dim import ZERO, Dim
from xg.ir.op import Gradient, Op, Term
from xg.ir.prim import Expr, cut
from xg.ir.tensor import Shape
from xg.ir.use import Attrs, Data, Misuse, Use


def configure(use: Use) -> Attrs:
    """`axis` and `lengths`, from the shapes of the labels that name the parts."""
    shape = use.types[0].shape
    targets = [target for target in use.targets if target is not None]
    if len(targets) != len(use.targets) or len(targets) < 2:
        raise Misuse("split needs a shape for each part", help=(": A [B, S, D], G [B, S, D]",))
    axes = [axis for axis in range(-len(shape), 0) if _fits(shape, targets, axis)]
    if len(axes) != 1:
        listed = ", ".join(use.spell(target) for target in targets)
        same = any(one == other for one, other in pairwise(targets))
        help = ("a name without a shape takes the next one's: write the shape of each",)
        raise Misuse(
            f"split cannot cut {use.spell(shape)} into {listed}", help=help if same else ()
        )
    lengths = tuple(target[axes[0]] for target in targets)
    return {"axis": axes[0], "lengths": lengths}


def _fits(shape: Shape, targets: list[Shape], axis: int) -> bool:
    total = ZERO
    for target in targets:
        if len(target) != len(shape):
            return False
        rest = list(target)
        rest[axis] = shape[axis]
        if tuple(rest) != shape:
            return False
        total = total + target[axis]
    return total == shape[axis]


def forward(x: Expr, *, axis: int, lengths: tuple[Dim, ...]) -> list[Expr]:
    """Stretches of `x`, in order."""
    parts: list[Expr] = []
    start = ZERO
    for length in lengths:
        parts.append(cut(x, axis, start, start + length))
        start = start + length
    return parts


def pullback(attrs: Attrs) -> Mapping[str, Gradient]:
    """The gradients of the parts, concatenated again."""
    lengths: tuple[Dim, ...] = attrs["lengths"]
    parts = tuple(f"d_{i + 1}" for i in range(len(lengths)))
    joined = {"axis": attrs["axis"], "count": len(lengths), "lengths": lengths}
    return {"x": Term("C", parts, joined)}


OP: Final = Op(
    glyph="split",
    name="split",
    family="layout",
    outputs=(),
    data=(Data("x", "any"),),
    forward=forward,
    configure=configure,
    pullback=pullback,
    meaning="cuts its operand into parts, one per label",
    formula="Y_1, Y_2, … = X cut along one axis",
    gradient="dX = [dY_1; dY_2; …]",
    source="the inverse of C",
    legend="parts of an axis",
)
