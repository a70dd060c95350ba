"""Broadcast along new axes (seed 001, 4.3.8: BC_{B,S}(b), the gradient sums over them)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Final

from xg.ir.dim import ONE, Dim, product
from xg.ir.op import Gradient, Op, Term
from xg.ir.prim import Expr, broadcast, reshape
from xg.ir.tensor import Shape
from xg.ir.use import Attrs, Axis, Data, Misuse, Use


def configure(use: Use) -> Attrs:
    """`atoms`: every axis before groups are merged; `new`: which of them are new; `shape`."""
    (type_,) = use.types
    if use.axes is None:
        shape = use.target or use.peer
        if shape is None:
            names = {str(use.sizes.fold(dim)) for dim in type_.shape}
            new = next(name for name in ("B", "S", "N") if name not in names)
            raise Misuse(
                f"BC does not know where to repeat {use.spell(type_.shape)} to",
                help=(f"give its edge a shape, or name only the axes to add, as BC[{new}](…)",),
            )
        return _attrs(type_.shape, shape, _fit(use, type_.shape, shape), shape)
    if use.axes.target is None:
        leading = use.bracket_sizes("BC", "BC[B, S]")
        atoms = (*leading, *type_.shape)
        return _attrs(type_.shape, atoms, tuple(range(len(leading))), atoms)
    return _map_attrs(use, type_.shape, use.axes.source, use.axes.target)


def _fit(use: Use, shape: Shape, wanted: Shape) -> tuple[int, ...]:
    """Find the new axes of `wanted`: the first ones if `shape` is its end, or the only choice."""
    extra = len(wanted) - len(shape)
    if extra >= 0 and wanted[extra:] == shape:
        return tuple(range(extra))
    ways = [
        new
        for new in combinations(range(len(wanted)), max(extra, 0))
        if tuple(dim for i, dim in enumerate(wanted) if i not in new) == shape
    ]
    if len(ways) == 1:
        return ways[0]
    change = f"make {use.spell(wanted)} from {use.spell(shape)}"
    if ways:
        maps = " or ".join(use.repeats(shape, wanted)[:2])
        help = (f"say which axis is which: {maps}",)
        raise Misuse(f"BC can {change} in more than one way", help=help)
    raise Misuse(
        f"BC cannot {change} by only adding axes", help=("it keeps every axis and adds some",)
    )


def _map_attrs(
    use: Use, shape: Shape, source: Sequence[Sequence[Axis]], target: Sequence[Sequence[Axis]]
) -> Attrs:
    dims = _axes_by_letter(use, shape, source)
    flat = [axis for group in target for axis in group]
    names = [axis.name for axis in flat if axis.name in dims]
    if names != [group[0].name for group in source if group[0].name]:
        raise Misuse(
            "BC keeps every axis once and in order", help=("use R or T to drop or reorder axes",)
        )
    new = tuple(i for i, axis in enumerate(flat) if axis.name not in dims)
    for i in new:
        if flat[i].size is None and flat[i].name:
            name = flat[i].name
            raise Misuse(f"BC does not know the size of the new axis {name}", help=(f"{name}=…",))
    sizes = {axis.name: use.sizes.expand(axis.size or ONE) for axis in flat} | dims
    atoms = tuple(sizes[axis.name] if axis.name else ONE for axis in flat)
    merged = tuple(product(sizes[a.name] if a.name else ONE for a in group) for group in target)
    return _attrs(shape, atoms, new, merged)


def _axes_by_letter(use: Use, shape: Shape, source: Sequence[Sequence[Axis]]) -> dict[str, Dim]:
    """Return the axes of the operand by their letters; axes of 1 may have no letter."""
    if len(source) != len(shape):
        raise Misuse(f"BC names {len(source)} axes of {use.spell(shape)}")
    dims: dict[str, Dim] = {}
    for group, dim in zip(source, shape, strict=True):
        if len(group) != 1:
            raise Misuse("BC keeps the axes it repeats: groups belong after its arrow")
        name = group[0].name
        if group[0].size is not None:
            raise Misuse(f"BC knows the size of {name}: sizes belong to new axes")
        if name in dims or not (name or dim == ONE):
            stands = f"{name} stands for two" if name else f"1 stands for {use.sizes.fold(dim)}"
            letters = ", ".join(use.letters(shape))
            help = (f"the axes of {use.spell(shape)} may be called {letters}",)
            raise Misuse(f"BC has a letter for each axis: {stands}", help=help)
        if name:
            dims[name] = dim
    return dims


def _attrs(operand: Shape, atoms: Shape, new: tuple[int, ...], shape: Shape) -> Attrs:
    return {"operand": operand, "atoms": atoms, "new": new, "shape": shape}


def forward(x: Expr, *, operand: Shape, atoms: Shape, new: tuple[int, ...], shape: Shape) -> Expr:
    """`x` repeated along the new axes."""
    ones = tuple(ONE if i in new else dim for i, dim in enumerate(atoms))
    aligned = x if ones[-x.rank or len(ones) :] == x.shape else reshape(x, ones)
    return reshape(broadcast(aligned, atoms), shape)


def pullback(attrs: Attrs) -> Mapping[str, Gradient]:
    """The sum over the new axes, after groups are split again."""
    atoms, new, shape, operand = (attrs[key] for key in ("atoms", "new", "shape", "operand"))
    split: Gradient = "d"
    if shape != atoms:
        split = Term("R", ("d",), _relabel(shape, atoms))
    axes = tuple(i - len(atoms) for i in new)
    summed: Gradient = Term("sum", (split,), {"axes": axes}) if axes else split
    left = tuple(dim for i, dim in enumerate(atoms) if i not in new)
    if left != operand:
        summed = Term("R", (summed,), _relabel(left, operand))
    return {"x": summed}


def _relabel(operand: Shape, shape: Shape) -> Attrs:
    """The attributes of an R that keeps the order of its elements."""
    return {"operand": operand, "atoms": shape, "order": tuple(range(len(shape))), "shape": shape}


OP: Final = Op(
    glyph="BC",
    name="broadcast",
    family="layout",
    data=(Data("x", "any"),),
    forward=forward,
    configure=configure,
    brackets="new axes or map",
    pullback=pullback,
    meaning="repeats along the axes that the label or the other operand has and x lacks, or along "
    "the axes in brackets",
    formula="Y[b, s, :] = x",
    gradient="dx = Σ over the new axes of dY",
    source="seed 001, 4.3.8",
)
