"""Where a sharded axis goes when axes are split and merged."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from xg.diagnostics.lazy_dataclass import dataclass
from xg.ir.dim import ONE, Dim, product
from xg.ir.tensor import Shape


@dataclass(frozen=True, slots=True)
class Group:
    """Axes of the source that become axes of the target, by their places from the front."""

    source: tuple[int, ...]
    target: tuple[int, ...]


def groups(source: Shape, target: Shape) -> Iterator[Group]:
    """The smallest groups of neighbouring axes with equal products; axes of size 1 join none."""
    left = [place for place, size in enumerate(source) if size != ONE]
    right = [place for place, size in enumerate(target) if size != ONE]
    behind, before = _products(source, left), _products(target, right)
    start = end = 0
    for stop, size in enumerate(behind, 1):
        if size in before[end:]:
            new = before.index(size, end) + 1
            yield Group(tuple(left[start:stop]), tuple(right[end:new]))
            start, end = stop, new


def _products(shape: Shape, places: Sequence[int]) -> list[Dim]:
    """The product of the first size, of the first two, and so on."""
    return [product(shape[place] for place in places[:end]) for end in range(1, len(places) + 1)]


def moved(source: Shape, target: Shape, axis: int) -> int | None:
    """The target's axis (from the end) that takes over a sharded axis, None if none can.

    The slices of a merged axis are contiguous only if its first part was cut; a split axis is cut
    along its first part. An axis of size 1 is not cut.
    """
    place = axis + len(source)
    for group in groups(source, target):
        if place == group.source[0]:
            return group.target[0] - len(target)
    return None
