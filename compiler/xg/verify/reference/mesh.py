"""The ranks beside one that computes, as the interpreter sees them."""

from __future__ import annotations

from typing import Protocol

from xg_runtime.module import Array


class Mesh(Protocol):
    """The ranks beside this one, by the names of the mesh's axes; axes count from the end."""

    def rank(self, over: str) -> int:
        """This rank's place along a mesh axis."""
        ...

    def size(self, over: str) -> int:
        """The number of ranks along it."""
        ...

    def all_reduce(self, x: Array, over: str) -> Array:
        """The sum over all ranks."""
        ...

    def all_reduce_max(self, x: Array, over: str) -> Array:
        """The maximum over all ranks."""
        ...

    def all_gather(self, x: Array, over: str, axis: int) -> Array:
        """The arrays of all ranks, one after the other along an axis."""
        ...

    def reduce_scatter(self, x: Array, over: str, axis: int) -> Array:
        """This rank's slice of the sum."""
        ...

    def all_to_all(self, x: Array, over: str, cut: int, joined: int) -> Array:
        """Parts along one axis for parts along another."""
        ...
