"""Uses of the operators that only move numbers: R, slice, pick and C."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from fuzz.author import LETTERS, Author, Move
from fuzz.sketch import Operand
from fuzz.world import AXES_AT_MOST, Axis, Known

from xg.ir.dim import ONE, Dim, product, symbol

Atom = tuple[str, Axis]  # an axis of a map by its letter
Groups = list[list[Atom]]


def reshaped(author: Author, x: Known) -> Move | None:
    """R: by the label that follows where that leaves one way, else with its map."""
    if not x.axes:
        return None
    source = _split(author, x)
    simple = author.world.chance(0.6)
    target = _regrouped(author, source, simple=simple)
    if len(target) > AXES_AT_MOST:
        return None
    known = replace(x, axes=tuple(map(_merged, target)))
    if known.shape == x.shape and author.world.chance(0.9):
        return None
    if simple and _is_plain(author, source, target):
        return Move("R", known, target=True)
    if not target:
        return None  # a map has an axis on both sides
    return Move(f"R[{_spell_source(author, source)} -> {_spell(target)}]", known)


def _split(author: Author, x: Known) -> Groups:
    """The axes of a value, each as one atom or as the factors of its size."""
    letters = iter(LETTERS)
    groups: Groups = []
    for axis in x.axes:
        factors = _factors(author, axis.dim) if author.world.chance(0.6) else (axis.dim,)
        unit = axis.dim == ONE and author.world.chance(0.5)
        groups.append([("1" if unit else next(letters), Axis(d, axis.varies)) for d in factors])
    return groups


def _factors(author: Author, dim: Dim) -> tuple[Dim, ...]:
    """The parts of a product: ``2*K`` is 2 and K, ``H`` is N_H and H/N_H where there are heads."""
    if dim == symbol("H") and "D_h" in author.world.definitions:
        return (symbol("N_H"), author.world.definitions["D_h"])
    if len(dim.terms) != 1 or dim == ONE:
        return (dim,)
    ((monomial, coefficient),) = dim.terms
    if any(power != 1 for _, power in monomial) or coefficient.denominator != 1:
        return (dim,)
    numbers = [ONE * int(coefficient)] if coefficient != 1 else []
    return (*numbers, *(symbol(name) for name, _ in monomial))


def _regrouped(author: Author, source: Groups, *, simple: bool) -> Groups:
    """Atoms in another grouping; a simple one merges neighbors and keeps the order."""
    atoms = [atom for group in source for atom in group if atom[0] != "1"]
    if not simple:
        author.random.shuffle(atoms)
    groups: Groups = [[atom] for atom in atoms]
    if author.world.chance(0.6) and len(groups) > 1:
        place = author.random.randrange(len(groups) - 1)
        groups[place : place + 2] = [groups[place] + groups[place + 1]]
    if simple and author.world.chance(0.4):
        author.random.shuffle(groups)
        groups.sort(key=lambda group: _splits(source, group))
    if author.world.chance(0.2):
        groups.insert(author.random.randint(0, len(groups)), [])
    return groups


def _splits(source: Groups, group: Sequence[Atom]) -> int:
    """Parts of a split axis come after the rest, in their order."""
    parts = [letter for axis in source if len(axis) > 1 for letter, _ in axis]
    return max((parts.index(letter) + 1 for letter, _ in group if letter in parts), default=0)


def _merged(group: Sequence[Atom]) -> Axis:
    dim = product(axis.dim for _, axis in group)
    return Axis(dim, any(axis.varies for _, axis in group))


def _is_plain(author: Author, source: Groups, target: Groups) -> bool:
    """Whether R can find the map by itself: disjoint symbols, and no axis both split and merged."""
    heads = author.world.definitions.get("D_h")
    seen: list[str] = []
    for group in source:
        for _, axis in group:
            if axis.dim != ONE and not axis.dim.symbols():
                return False
            seen += ["D_h"] if axis.dim == heads else axis.dim.symbols()
    if len(set(seen)) < len(seen) or ("H" in seen and {"N_H", "D_h"} & set(seen)):
        return False
    split = {letter for group in source if len(group) > 1 for letter, _ in group}
    merged = {letter for group in target if len(group) > 1 for letter, _ in group}
    return not split & merged


def _spell_source(author: Author, groups: Groups) -> str:
    """Groups with the sizes of all but one of their parts."""
    texts: list[str] = []
    for group in groups:
        if len(group) == 1:
            texts.append(group[0][0])
            continue
        free = author.random.randrange(len(group))
        parts = [
            letter if i == free else f"{letter}={author.world.spell(axis.dim)}"
            for i, (letter, axis) in enumerate(group)
        ]
        texts.append(f"({', '.join(parts)})")
    return ", ".join(texts)


def _spell(groups: Groups) -> str:
    texts = ["1" if not g else g[0][0] if len(g) == 1 else _group(g) for g in groups]
    return ", ".join(texts)


def _group(group: Sequence[Atom]) -> str:
    return f"({', '.join(letter for letter, _ in group)})"


def sliced(author: Author, x: Known) -> Move | None:
    """A stretch or one position of an axis that has a name."""
    places = [i for i, dim in enumerate(x.shape) if x.shape.count(dim) == 1 and dim != ONE]
    named = [(i, author.nameable(x.shape[i])) for i in places]
    usable = [(i, name) for i, name in named if name]
    if not usable:
        return None
    place, name = author.random.choice(usable)
    dim = x.shape[place]
    if author.world.least(dim) < 2:
        return None
    if author.world.chance(0.5):
        index = author.random.choice(["0", "1", f"{name} - 1"])
        axes = (*x.axes[:place], *x.axes[place + 1 :])
        return Move(f"pick[{name}]({index})", replace(x, axes=axes))
    first, last, left = author.random.choice(
        [("0", f"{name} - 1", dim - 1), ("1", name, dim - 1), ("0", "2", ONE * 2), ("1", "2", ONE)]
    )
    axes = (*x.axes[:place], Axis(left, x.axes[place].varies), *x.axes[place + 1 :])
    return Move(f"slice[{name}]({first}, {last})", replace(x, axes=axes))


def concatenated(author: Author, x: Known) -> Move | None:
    """C with one value of the same shape, or of one that differs along an axis."""
    choices: list[tuple[Known, int]] = []
    for value in author.floats():
        if len(value.shape) == len(x.shape) and x.shape:
            odd = [i for i in range(len(x.shape)) if value.shape[i] != x.shape[i]]
            if len(odd) < 2:
                choices.append((value, odd[0] if odd else author.random.randrange(len(x.shape))))
    if not choices:
        return None
    value, axis = author.random.choice(choices)
    total = x.shape[axis] + value.shape[axis]
    shape = (*x.shape[:axis], total, *x.shape[axis + 1 :])
    if not author.world.fits(shape):
        return None
    fits = [i for i in range(len(shape)) if _put(x.shape, value.shape, i) == shape]
    if len(fits) != 1:
        return None
    varies = x.axes[axis].varies or value.axes[axis].varies
    axes = tuple(
        Axis(dim, a.varies and b.varies)
        for dim, a, b in zip(shape, x.axes, value.axes, strict=True)
    )
    axes = (*axes[:axis], Axis(total, varies), *axes[axis + 1 :])
    known = replace(x, axes=axes, dense=x.dense and value.dense, size=max(x.size, value.size))
    operand: Operand = author.operand(value)
    return Move("C", known, (operand,), target=True)


def _put(first: Sequence[Dim], second: Sequence[Dim], axis: int) -> tuple[Dim, ...] | None:
    """The shape of two tensors put together along an axis, where that is possible."""
    if (*first[:axis], *first[axis + 1 :]) != (*second[:axis], *second[axis + 1 :]):
        return None
    return (*first[:axis], first[axis] + second[axis], *first[axis + 1 :])
