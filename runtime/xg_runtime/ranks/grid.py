"""Ranks on the grid of a mesh: row-major, the first axis outermost."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from xg_runtime.errors import InputError


@dataclass(frozen=True, slots=True)
class Grid:
    """The axes of a mesh with their sizes, and where each rank lies on them."""

    sizes: Mapping[str, int]

    def __post_init__(self) -> None:
        for axis, size in self.sizes.items():
            if size < 1:
                raise InputError(f"mesh axis {axis} has size {size}; it takes at least 1")

    @property
    def count(self) -> int:
        """The number of ranks."""
        return math.prod(self.sizes.values())

    def size(self, axis: str) -> int:
        """The number of ranks along an axis; raises InputError where there is no such axis."""
        if axis not in self.sizes:
            known = ", ".join(self.sizes) or "none"
            raise InputError(f"the mesh has no axis {axis}; its axes are: {known}")
        return self.sizes[axis]

    def coordinates(self, rank: int) -> dict[str, int]:
        """Where a rank lies on each axis.

        >>> Grid({"N_D": 2, "N_T": 3}).coordinates(5)
        {'N_D': 1, 'N_T': 2}
        """
        places: dict[str, int] = {}
        for axis in reversed(list(self.sizes)):
            rank, places[axis] = divmod(rank, self.sizes[axis])
        return {axis: places[axis] for axis in self.sizes}

    def number(self, places: Sequence[int]) -> int:
        """The rank that lies at these places.

        >>> Grid({"N_D": 2, "N_T": 3}).number([1, 2])
        5
        """
        found = 0
        for size, place in zip(self.sizes.values(), places, strict=True):
            found = found * size + place
        return found

    def group(self, rank: int, axis: str) -> tuple[int, ...]:
        """The ranks that differ from `rank` at most along `axis`, in the axis's order.

        >>> Grid({"N_D": 2, "N_T": 3}).group(4, "N_D")
        (1, 4)
        """
        names = list(self.sizes)
        step = math.prod(self.sizes[name] for name in names[names.index(axis) + 1 :])
        first = rank - self.coordinates(rank)[axis] * step
        return tuple(first + place * step for place in range(self.size(axis)))

    def describe(self, rank: int) -> str:
        """Name a rank for a message: "rank 5 (N_D = 1, N_T = 2)"; on one axis just "rank 5"."""
        if len(self.sizes) < 2:
            return f"rank {rank}"
        places = ", ".join(f"{axis} = {at}" for axis, at in self.coordinates(rank).items())
        return f"rank {rank} ({places})"
