"""Split, merge and reorder axes (seed 001, 4.3.7: node R, its gradient is the inverse layout)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from typing import Final

from xg.ir.dim import ONE, Dim, DimError, product
from xg.ir.op import Gradient, Op, Term
from xg.ir.prim import Expr, reshape, transpose
from xg.ir.tensor import Shape
from xg.ir.use import Attrs, Axis, Data, Misuse, Use

# One way to lay out: for each source axis the target axes it splits into, for each target axis the
# source axes it is merged from; a kept axis is both.
Pair = tuple[tuple[int, ...], tuple[int, ...]]
Layout = tuple[Shape, tuple[int, ...]]  # atoms in source order, and their order in the target


def configure(use: Use) -> Attrs:
    """`atoms`: the source with every axis split; `order` of them in the target."""
    shape = use.types[0].shape
    if use.axes is not None:
        if use.axes.target is None:
            raise Misuse("R needs both sides of its map", help=("R[b, s, (h, d) -> b, h, s, d]",))
        return _map_attrs(use, shape, use.axes.source, use.axes.target)
    if use.target is None:
        written = "b, s, (h, d) -> b, h, s, d" if len(shape) < 4 else "b, h, s, d -> b, s, (h, d)"
        raise Misuse(
            f"R does not know what to make of {use.spell(shape)}",
            help=(f"give its edge a shape, or write the map: R[{written}]",),
        )
    return _infer_attrs(use, shape, use.target)


def _infer_attrs(use: Use, shape: Shape, target: Shape) -> Attrs:
    """Find the layout that keeps the flattened order, or the only one that names allow."""
    source = [dim for dim in shape if dim != ONE]
    dims = [dim for dim in target if dim != ONE]
    in_order = _refine_layout(source, dims)
    named: dict[Layout, None] = {}
    moves: dict[Layout, None] = {}
    for layout in (_layout(source, dims, way) for way in _ways(source, dims, ())):
        if _moves_numbers(layout):
            moves[layout] = None
        elif _has_new_order(layout):
            named[layout] = None
        elif not in_order:
            in_order = [layout]
        if len(named) + len(in_order) > 1 or (moves and not any(dim.symbols() for dim in source)):
            break  # eight equal axes have 40,320 layouts
    candidates = [*in_order, *named]
    change = f"make {use.spell(target)} from {use.spell(shape)}"
    if len(candidates) > 1:
        raise Misuse(f"R can {change} in more than one way", help=_maps(use, target, candidates))
    if moves and not candidates:
        why = "without moving axes past each other that are plain numbers"
        raise Misuse(f"R cannot {change} {why}", help=_maps(use, target, [*moves]))
    if not candidates:
        why = "by splitting, merging and reordering axes"
        raise Misuse(f"R cannot {change} {why}", help=_compare_counts(use, shape, target))
    ((atoms, order),) = candidates
    return {"operand": shape, "atoms": atoms, "order": order, "shape": target}


def _maps(use: Use, target: Shape, layouts: Sequence[Layout]) -> tuple[str, ...]:
    """Return a help with the maps of the first two layouts."""
    maps = " or ".join(_spell_map(use, target, layout) for layout in layouts[:2])
    return (f"say which: {maps}" if len(layouts) > 1 else f"write the map: {maps}",)


def _spell_map(use: Use, target: Shape, layout: Layout) -> str:
    """Spell the map of a layout, `R[b, (h, d) -> b, h, d]`, with sizes where an axis splits."""
    atoms, order = layout
    names = use.letters(atoms)
    sides = (
        _groups(use.types[0].shape, list(zip(names, atoms, strict=True)), use, sizes=True),
        _groups(target, [(names[place], atoms[place]) for place in order], use, sizes=False),
    )
    return f"R[{' -> '.join(sides)}]"


def _groups(dims: Shape, parts: list[tuple[str, Dim]], use: Use, *, sizes: bool) -> str:
    """Spell the axes of one side: each is the next few parts, whose product it is."""
    sides: list[str] = []
    for dim in dims:
        group: list[tuple[str, Dim]] = []
        while dim != ONE and (product(size for _, size in group) != dim or not group):
            group.append(parts.pop(0))
        spelled = [
            f"{name}={use.sizes.fold(size)}" if sizes and place else name
            for place, (name, size) in enumerate(group)
        ]
        sides.append(f"({', '.join(spelled)})" if len(group) > 1 else (*spelled, "1")[0])
    return ", ".join(sides)


def _compare_counts(use: Use, shape: Shape, target: Shape) -> tuple[str, ...]:
    """Return a help with the numbers of elements, if the shapes have different ones."""
    before, after = (use.sizes.fold(product(each)) for each in (shape, target))
    if before == after:
        return ()
    kept = "R keeps them: where a size and a number are one, write the one for the other"
    return (
        f"{use.spell(shape)} has {before} elements, {use.spell(target)} has {after}, and {kept}",
    )


def _has_new_order(layout: Layout) -> bool:
    """Return whether elements come in another order."""
    atoms, order = layout
    return order != tuple(range(len(atoms)))


def _moves_numbers(layout: Layout) -> bool:
    """Whether two axes change places that only their lengths tell apart: they may be others."""
    atoms, order = layout
    numbers = [place for place in order if atoms[place].constant is not None]
    return numbers != sorted(numbers)


def _refine_layout(source: Sequence[Dim], target: Sequence[Dim]) -> list[Layout]:
    """Return the layout that keeps the order when axes are split and merged at once, if any."""
    atoms: list[Dim] = []
    left, right = list(source), list(target)
    while left and right:
        one, other = left.pop(0), right.pop(0)
        ratio = _ratio(other, one), _ratio(one, other)
        if ratio[0] is not None:
            atoms.append(one)
            right[:0] = [ratio[0]] if ratio[0] != ONE else []
        elif ratio[1] is not None:
            atoms.append(other)
            left[:0] = [ratio[1]]
        else:
            return []
    return [] if left or right else [(tuple(atoms), tuple(range(len(atoms))))]


def _ratio(whole: Dim, part: Dim) -> Dim | None:
    """How often a part goes into a whole, where that is a number for all sizes."""
    try:
        ratio = whole / part
    except DimError:
        return None
    powers = [power for monomial, _ in ratio.terms for _, power in monomial]
    is_whole = all(coefficient.denominator == 1 for _, coefficient in ratio.terms)
    return ratio if is_whole and all(power > 0 for power in powers) else None


def _ways(
    source: Sequence[Dim], target: Sequence[Dim], done: tuple[Pair, ...]
) -> Iterator[tuple[Pair, ...]]:
    """Every set of pairs that covers both sides; at most the rank limit deep."""
    used_source = {i for pair in done for i in pair[0]}
    used_target = {j for pair in done for j in pair[1]}
    free_source = [i for i in range(len(source)) if i not in used_source]
    free_target = [j for j in range(len(target)) if j not in used_target]
    if not free_source or not free_target:
        if not free_source and not free_target:
            yield done
        return
    first = free_source[0]
    for count in range(1, len(free_target) + 1):
        for targets in combinations(free_target, count):
            if product(target[j] for j in targets) == source[first]:
                yield from _ways(source, target, (*done, ((first,), targets)))
    for count in range(1, len(free_source)):
        for others in combinations(free_source[1:], count):
            merged = product(source[i] for i in (first, *others))
            for j in free_target:
                if target[j] == merged:
                    yield from _ways(source, target, (*done, ((first, *others), (j,))))


def _layout(source: Sequence[Dim], target: Sequence[Dim], way: Sequence[Pair]) -> Layout:
    """Atoms in source order, and their order in the target."""
    of_source: dict[int, list[tuple[int, int]]] = {}
    of_target: dict[int, list[tuple[int, int]]] = {}
    for sources, targets in way:
        for i in sources:
            for j in targets:
                of_source.setdefault(i, []).append((i, j))
                of_target.setdefault(j, []).append((i, j))
    atoms = [pair for i in range(len(source)) for pair in of_source[i]]
    splits = {pair for pairs in of_source.values() if len(pairs) > 1 for pair in pairs}
    sizes = tuple(target[j] if (i, j) in splits else source[i] for i, j in atoms)
    order = [atoms.index(pair) for j in range(len(target)) for pair in of_target[j]]
    return sizes, tuple(order)


def _map_attrs(
    use: Use, shape: Shape, source: Sequence[Sequence[Axis]], target: Sequence[Sequence[Axis]]
) -> Attrs:
    if len(source) != len(shape):
        raise Misuse(f"R names {len(source)} axes of {use.spell(shape)}")
    sizes: dict[str, Dim] = {}
    names: list[str] = []
    said = _said_by_label(use, target)
    for group, dim in zip(source, shape, strict=True):
        sizes.update(_group_sizes(use, group, dim, said))
        names.extend(axis.name for axis in group if axis.name)
    target_names = [axis.name for group in target for axis in group if axis.name]
    if sorted(names) != sorted(target_names) or len(set(names)) != len(names):
        odd = sorted(set(names) ^ set(target_names)) or sorted(
            {n for n in names if names.count(n) > 1}
        )
        raise Misuse(
            f"R keeps every axis: {', '.join(odd)} is on one side only, or twice",
            help=("BC makes new axes, sum and mean remove some",),
        )
    merged = tuple(product(sizes[axis.name] for axis in group if axis.name) for group in target)
    order = tuple(names.index(name) for name in target_names)
    atoms = tuple(sizes[name] for name in names)
    return {"operand": shape, "atoms": atoms, "order": order, "shape": merged}


def _said_by_label(use: Use, target: Sequence[Sequence[Axis]]) -> dict[str, Dim]:
    """The sizes of axes that are alone in the target, where a label says its shape."""
    if use.target is None or len(use.target) != len(target):
        return {}
    alone = (
        (group[0].name, dim)
        for group, dim in zip(target, use.target, strict=True)
        if len(group) == 1
    )
    return {name: dim for name, dim in alone if name}


def _group_sizes(
    use: Use, group: Sequence[Axis], dim: Dim, said: Mapping[str, Dim]
) -> dict[str, Dim]:
    """The sizes of the axes that one axis splits into; without their own those that are `said`."""
    dims = {axis.name: use.sizes.expand(axis.size) for axis in group if axis.size is not None}
    silent = [axis.name for axis in group if axis.size is None and axis.name]
    dims |= {name: said[name] for name in silent[1:] if name in said}
    unknown = [name for name in silent if name not in dims]
    if len(unknown) > 1:
        raise Misuse(
            f"R cannot tell how {use.sizes.fold(dim)} splits into {', '.join(unknown)}",
            help=(f"give all but one a size: {unknown[0]}=…",),
        )
    try:
        rest = dim / product(dims.values())
    except DimError as problem:
        raise Misuse(str(problem)) from None
    if not unknown and rest != ONE:
        raise Misuse(f"R splits {use.sizes.fold(dim)} into parts of another size")
    return dims | dict.fromkeys(unknown, rest)


def forward(x: Expr, *, operand: Shape, atoms: Shape, order: tuple[int, ...], shape: Shape) -> Expr:
    """The same elements under another shape."""
    return reshape(transpose(reshape(x, atoms), order), shape)


def pullback(attrs: Attrs) -> Mapping[str, Gradient]:
    """The inverse layout: back to the atoms, back to their order, back to the operand's shape."""
    order: tuple[int, ...] = attrs["order"]
    back = {
        "operand": attrs["shape"],
        "atoms": tuple(attrs["atoms"][axis] for axis in order),
        "order": tuple(sorted(range(len(order)), key=lambda axis: order[axis])),
        "shape": attrs["operand"],
    }
    return {"x": Term("R", ("d",), back)}


OP: Final = Op(
    glyph="R",
    name="reshape",
    family="layout",
    data=(Data("x", "any"),),
    forward=forward,
    configure=configure,
    brackets="map",
    pullback=pullback,
    meaning="splits, merges and reorders axes to match the label after it",
    formula="Y = X under another shape",
    gradient="dX = dY under the shape of X",
    source="seed 001, 4.3.7",
)
