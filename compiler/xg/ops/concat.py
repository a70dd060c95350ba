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
    """`axis`, from the end: the one named, or the only one whose sizes add up to the label's.

    A name is that of the axis as the first operand has it, else as the result has it.
    """
    shapes = [type_.shape for type_ in use.types]
    said = "C puts its operands one after the other along one axis", "C[S]"
    named = use.bracket_axis(*said)
    if named is not None and named.place is not None:
        use.one_axis(*said)  # which refuses a place that there is not
    if any(len(shape) != len(shapes[0]) for shape in shapes):
        listed = ", ".join(use.spell(shape) for shape in shapes)
        raise Misuse(f"C puts together tensors of one rank, not {listed}")
    joined = {axis: put for axis in range(-len(shapes[0]), 0) if (put := _put(shapes, axis))}
    axes = _bracket_axes(use, shapes[0], joined, named) if named else _reaching(use, joined)
    if len(axes) != 1:
        listed = ", ".join(use.spell(shape) for shape in shapes)
        goal = f" to {use.spell(use.target)}" if use.target else ""
        if not axes:
            raise _refusal(use, f"C cannot put {listed} together{goal}", joined, named)
        names = " or ".join(f"C[{use.axis(shapes[0], axis)}]" for axis in axes)
        help = (f"name the axis, {names}, or give its edge a shape",)
        raise Misuse(f"C can put {listed} together{goal} along more than one axis", help=help)
    lengths = tuple(shape[axes[0]] for shape in shapes)
    return {"axis": axes[0], "count": len(shapes), "lengths": lengths}


def _put(shapes: list[Shape], axis: int) -> Shape | None:
    """The shape of all together along an axis; None where their other axes differ."""
    rests = {(*shape[:axis], *shape[len(shape) + axis + 1 :]) for shape in shapes}
    if len(rests) != 1:
        return None
    put = list(shapes[0])
    put[axis] = sum((shape[axis] for shape in shapes), ZERO)
    return tuple(put)


def _bracket_axes(use: Use, first: Shape, joined: Mapping[int, Shape], named: Axis) -> list[int]:
    """Return the axes the brackets may mean: by place, or by name before or after joining."""
    if named.place is not None:
        return [axis for axis in joined if axis == named.place]
    for shapes in (dict.fromkeys(joined, first), joined):
        axes = [axis for axis in joined if str(use.sizes.fold(shapes[axis][axis])) == named.name]
        if axes:
            return axes
    return []


def _reaching(use: Use, joined: Mapping[int, Shape]) -> list[int]:
    """Return the axes along which the result has the label's shape, or all without a label."""
    return [axis for axis, put in joined.items() if use.target in (None, put)]


def _refusal(use: Use, said: str, joined: Mapping[int, Shape], named: Axis | None) -> Misuse:
    if named is None or not joined:
        return Misuse(f"{said} along any axis")
    wanted = _reaching(use, joined) or joined
    ways = (f"C[{axis}] makes {use.spell(joined[axis])}" for axis in wanted)
    return Misuse(f"{said} along {named.name or 1}", help=(f"they fit: {', '.join(ways)}",))


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
    meaning="joins its operands along one axis",
    formula="Y = [X_1; X_2; …]",
    gradient="dX_i = its stretch of dY",
    source="seed 000, 2",
    legend="concatenation",
)
