"""The mesh of a process while torch traces its code: plain facts, and collectives that torch knows.

`torch.compile` follows no context variables and no handles. So a traced rank asks this mesh, and
its collectives are operators of torch, which a graph may hold and reorder.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations
from typing import Any

import torch

from xg_runtime.ranks.backend import CARRIERS
from xg_runtime.ranks.grid import Grid, axis_of, no_communicator
from xg_runtime.ranks.kinds import Kind

Ended = tuple[None, torch.Tensor]  # no handle to wait for, and the flat result

_ops: Any = torch.ops  # its operators have no annotations
_c10d: Any = _ops._c10d_functional


class TracedMesh:
    """The sizes, places and group names of one rank, by the mesh axes that are joined."""

    def __init__(self, grid: Grid, place: int, groups: Mapping[tuple[int, ...], str]) -> None:
        """`groups` are torch's names of the groups of this rank, by their members."""
        axes = list(grid.sizes)
        several = [c for count in range(1, len(axes) + 1) for c in combinations(axes, count)]
        names = {names: "*".join(names) for names in several}
        self.order = tuple(axes)
        self.sizes = dict(grid.sizes)
        self.lengths = {key: grid.size(name) for key, name in names.items()}
        self.places = {key: grid.place(place, name) for key, name in names.items()}
        self.groups = {
            key: groups[members]
            for key, name in names.items()
            if (members := grid.group(place, name)) in groups
        }

    def rank(self, over: str) -> int:
        """This rank's place along an axis, or along several."""
        return self.places[self._key(over)]

    def size(self, over: str) -> int:
        """The number of ranks along an axis, or along several."""
        return self.lengths[self._key(over)]

    def _key(self, over: str) -> tuple[str, ...]:
        named = axis_of(over).split("*")
        return tuple(axis for axis in self.order if axis in named)

    def run(self, kind: Kind, over: str, x: torch.Tensor) -> torch.Tensor:
        """The result of a collective, as `kinds` describes it.

        Raises InputError for a group that was not made, as the mesh of code that runs does.
        """
        key = self._key(over)
        if key not in self.groups:
            raise no_communicator(over)
        group = _TracedGroup(self.groups[key], self.size(over), self.rank(over))
        given = x.contiguous().reshape(-1).to(CARRIERS.get(x.dtype, x.dtype))
        _, result = kind.begin(group, given)
        return result.reshape(kind.shape(tuple(x.shape), group.ranks)).to(x.dtype)


class _TracedGroup:
    """A group as `kinds.Group` describes it, by operators that have ended when they return."""

    def __init__(self, name: str, ranks: int, place: int) -> None:
        self.name, self.ranks, self.place = name, ranks, place

    def total(self, given: torch.Tensor) -> Ended:
        return self._ended(_c10d.all_reduce(given, "sum", self.name))

    def largest(self, given: torch.Tensor) -> Ended:
        return self._ended(_c10d.all_reduce(given, "max", self.name))

    def gather(self, given: torch.Tensor) -> Ended:
        return self._ended(_c10d.all_gather_into_tensor(given, self.ranks, self.name))

    def total_of_slices(self, given: torch.Tensor) -> Ended:
        """Sum on CPUs in the order of the ranks, as `exchanges.sum_of_slices` does."""
        if given.device.type != "cpu":
            return self._ended(_c10d.reduce_scatter_tensor(given, "sum", self.ranks, self.name))
        total, *terms = self.exchange(given)[1].reshape(self.ranks, -1).unbind()
        for term in terms:
            total = total + term
        return None, total

    def exchange(self, given: torch.Tensor) -> Ended:
        lengths = [given.numel() // self.ranks] * self.ranks
        return self._ended(_c10d.all_to_all_single(given, lengths, lengths, self.name))

    def shift(self, given: torch.Tensor) -> Ended:
        sent, taken = [0] * self.ranks, [0] * self.ranks
        sent[(self.place + 1) % self.ranks] = taken[self.place - 1] = given.numel()
        return self._ended(_c10d.all_to_all_single(given, taken, sent, self.name))

    @staticmethod
    def _ended(begun: torch.Tensor) -> Ended:
        return None, _c10d.wait_tensor(begun)
