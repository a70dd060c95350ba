"""Parts one after the other along an axis (seed 000, 2: node C; its gradient cuts them apart)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from xg.ir.dim import ZERO, Dim
from xg.ir.op import Gradient, Op, Term
from xg.ir.prim import Expr, concat
from xg.ir.tensor import Shape
from xg.ir.use import Attrs, Axis, Misuse, Use


def configure(use: Use) -> Attrs:
    """`axis`, from the end: the one named, or the only one whose sizes add up to the label's."""
    shapes = [type_.shape for type_ in use.types]
    said = "C puts its operands one after the other along one axis", "C[S]"
    named = use.listed(*said)
    if named is not None and named.place is not None:
        use.one_axis(*said)  # which refuses a place that there is not
    if any(len(shape) != len(shapes[0]) for shape in shapes):
        listed = ", ".join(use.spell(shape) for shape in shapes)
        raise Misuse(f"C puts together tensors of one rank, not {listed}")
    axes = [axis for axis in range(-len(shapes[0]), 0) if _fits(use, shapes, axis, named)]
    if len(axes) != 1:
        listed = ", ".join(use.spell(shape) for shape in shapes)
        goal = f" to {use.spell(use.target)}" if use.target else ""
        names = " or ".join(f"C[{use.axis(shapes[0], axis)}]" for axis in axes)
        if axes:
            help = (f"name the axis, {names}, or give its edge a shape",)
            raise Misuse(f"C can put {listed} together{goal} along more than one axis", help=help)
        raise Misuse(f"C cannot put {listed} together{goal} along any axis")
    lengths = tuple(shape[axes[0]] for shape in shapes)
    return {"axis": axes[0], "count": len(shapes), "lengths": lengths}


def _fits(use: Use, shapes: list[Shape], axis: int, named: Axis | None) -> bool:
    rests = {(*shape[:axis], *shape[len(shape) + axis + 1 :]) for shape in shapes}
    if len(rests) != 1:
        return False
    if named is not None and named.place is not None:
        return axis == named.place
    if named is not None:
        return str(use.sizes.fold(shapes[0][axis])) == named.name
    if use.target is None:
        return True
    total = ZERO
    for shape in shapes:
        total = total + shape[axis]
    put = list(shapes[0])
    put[axis] = total
    return tuple(put) == use.target


def forward(*parts: Expr, axis: int, count: int, lengths: tuple[Dim, ...]) -> Expr:
    """The parts in order."""
    return concat(parts, axis)


def pullback(attrs: Attrs) -> Mapping[str, Gradient]:
    """To each part its stretch of the gradient."""
    gradients: dict[str, Gradient] = {}
    start = ZERO
    for i, length in enumerate(attrs["lengths"]):
        stretch = {"axis": attrs["axis"], "start": start, "stop": start + length}
        gradients[f"x_{i + 1}"] = Term("slice", ("d",), stretch)
        start = start + length
    return gradients


OP: Final = Op(
    glyph="C",
    name="concat",
    family="layout",
    data=(),
    variadic=True,
    forward=forward,
    configure=configure,
    brackets="axes",
    pullback=pullback,
    meaning="puts its operands one after the other along one axis",
    formula="Y = [X_1; X_2; …]",
    gradient="dX_i = its stretch of dY",
    source="seed 000, 2",
    legend="concatenation",
)
