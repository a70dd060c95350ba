"""Where a sharded axis goes when axes are split and merged."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from xg.dim import ONE, Dim, product
from xg.tensor import Shape


@dataclass(frozen=True, slots=True)
class Group:
    """Axes of the source that become axes of the target, by their places from the front."""

    source: tuple[int, ...]
    target: tuple[int, ...]


def groups(source: Shape, target: Shape) -> Iterator[Group]:
    """The smallest groups of neighbouring axes with equal products; axes of size 1 join none."""
    i = j = 0
    while i < len(source) or j < len(target):
        left, right = [i] if i < len(source) else [], [j] if j < len(target) else []
        i, j = i + len(left), j + len(right)
        while not _equal(source, left, target, right):
            i, j = _grow(source, target, left, right, i, j)
        yield Group(tuple(left), tuple(right))


def _equal(source: Shape, left: list[int], target: Shape, right: list[int]) -> bool:
    return product(source[a] for a in left) == product(target[b] for b in right)


def _grow(
    source: Shape, target: Shape, left: list[int], right: list[int], i: int, j: int
) -> tuple[int, int]:
    """Take one more axis on the side whose product divides the other's less."""
    behind = product(source[a] for a in left)
    before = product(target[b] for b in right)
    if i < len(source) and (j >= len(target) or _is_part(behind, before)):
        left.append(i)
        return i + 1, j
    right.append(j)
    return i, j + 1


def _is_part(smaller: Dim, larger: Dim) -> bool:
    """Whether the first can be a factor of the second: their quotient has no divisor left."""
    if smaller == ONE:
        return True
    if len(smaller.terms) != 1:
        return False
    quotient = larger / smaller
    return all(power > 0 for monomial, _ in quotient.terms for _, power in monomial) and all(
        coefficient.denominator == 1 for _, coefficient in quotient.terms
    )


def moved(source: Shape, target: Shape, axis: int) -> int | None:
    """The target's axis (from the end) that takes over a sharded axis, None where none can.

    The slices of a merged axis lie together only if its first part was cut; a split axis is cut
    along its first part.
    """
    place = axis + len(source)
    for group in groups(source, target):
        if place in group.source:
            parts = [a for a in group.source if source[a] != ONE]
            whole = [b for b in group.target if target[b] != ONE]
            if not parts or parts[0] != place or not whole:
                return None
            return whole[0] - len(target)
    return None
