"""Axes in another order (seed 001, 4.3.7: node T, its gradient is the inverse order)."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import permutations
from typing import Final

from xg.ir.dim import ONE
from xg.ir.op import Gradient, Op, Term
from xg.ir.prim import Expr, transpose
from xg.ir.use import Attrs, AxisMap, Data, Misuse, Use


def configure(use: Use) -> Attrs:
    """`order`: the last two axes exchanged, or what the map or the label that follows asks for."""
    shape = use.types[0].shape
    if len(shape) < 2:
        raise Misuse(f"T needs two axes; {use.spell(shape)} has {len(shape)}")
    if use.axes is not None:
        return {"order": _axis_order(use, use.axes)}
    identity = tuple(range(len(shape)))
    swapped = (*identity[:-2], identity[-1], identity[-2])
    if use.target is None:
        return {"order": swapped}
    ways = [
        order
        for order in permutations(identity)
        if order != identity and tuple(shape[axis] for axis in order) == use.target
    ]
    if len(ways) != 1:
        change = f"make {use.spell(use.target)} from {use.spell(shape)}"
        if not ways:
            raise Misuse(f"T cannot {change} by reordering axes")
        axes = use.letters(shape)
        orders = (", ".join(axes[axis] for axis in order) for order in ways[:2])
        maps = " or ".join(f"T[{', '.join(axes)} -> {order}]" for order in orders)
        raise Misuse(f"T can {change} in more than one way", help=(f"say which: {maps}",))
    return {"order": ways[0]}


def _axis_order(use: Use, axes: AxisMap) -> tuple[int, ...]:
    if any(axis.size for group in (*axes.source, *(axes.target or ())) for axis in group):
        raise Misuse("T makes no new axes: sizes in its map are not read")
    if any(len(group) != 1 for group in (*axes.source, *(axes.target or ()))):
        raise Misuse("T keeps every axis as it is", help=("R splits and merges axes",))
    source = [axis.name for group in axes.source for axis in group]
    target = [axis.name for group in axes.target or () for axis in group]
    shape = use.types[0].shape
    if sorted(source) != sorted(target) or len(source) != len(shape):
        raise Misuse(
            f"T keeps every axis of {use.spell(shape)}",
            help=("T[b, s, d -> b, d, s]; R splits and merges axes",),
        )
    left: dict[str, list[int]] = {}  # axes of 1 have no letters: they keep their order
    for place, name in enumerate(source):
        left.setdefault(name, []).append(place)
    order = tuple(left[name].pop(0) for name in target)
    for name, dim in zip(source, shape, strict=True):
        if source.count(name) > 1 if name else dim != ONE:
            letters = use.letters(shape)
            written, moved = ", ".join(letters), ", ".join(letters[place] for place in order)
            stands = f"{name} stands for two" if name else f"1 stands for {use.sizes.fold(dim)}"
            help = (f"T[{written} -> {moved}]",)
            raise Misuse(f"T has a letter for each axis: {stands}", help=help)
    return order


def forward(x: Expr, *, order: tuple[int, ...]) -> Expr:
    """Axis i of the result is axis ``order[i]`` of `x`."""
    return transpose(x, order)


def pullback(attrs: Attrs) -> Mapping[str, Gradient]:
    """The inverse order."""
    order: tuple[int, ...] = attrs["order"]
    inverse = tuple(sorted(range(len(order)), key=lambda axis: order[axis]))
    return {"x": Term("T", ("d",), {"order": inverse})}


OP: Final = Op(
    glyph="T",
    name="transpose",
    family="layout",
    data=(Data("x", "any"),),
    forward=forward,
    configure=configure,
    brackets="map",
    pullback=pullback,
    meaning="swaps the last two axes, or reorders axes to match the label after it",
    formula="Y = X⊤",
    gradient="dX = dY⊤",
    source="seed 001, 4.3.7",
)
