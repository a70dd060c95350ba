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
from xg_runtime.ranks.grid import Grid
from xg_runtime.ranks.kinds import Kind
from xg_runtime.ranks.order import axis_of

_ops: Any = torch.ops  # its operators have no annotations


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
        """The result of a collective, as `kinds` describes it."""
        group, ranks, place = self.groups[self._key(over)], self.size(over), self.rank(over)
        given = x.contiguous().to(CARRIERS.get(x.dtype, x.dtype))
        c10d = _ops._c10d_functional
        if kind.name in ("all_reduce", "all_reduce_max"):
            op = "sum" if kind.sums else "max"
            begun = c10d.all_reduce(given, op, group)
        elif kind.name == "all_gather":
            rows = given.reshape(1, *given.shape)
            begun = c10d.all_gather_into_tensor(rows, ranks, group)
        elif kind.name == "shift":
            sent, taken = [0] * ranks, [0] * ranks
            sent[(place + 1) % ranks] = taken[place - 1] = given.numel()
            begun = c10d.all_to_all_single(given.reshape(-1), taken, sent, group)
        elif kind.name == "all_to_all" or x.device.type == "cpu":
            parts = [1] * ranks
            begun = c10d.all_to_all_single(given, parts, parts, group)
        else:
            begun = c10d.reduce_scatter_tensor(given, "sum", ranks, group)
        result = c10d.wait_tensor(begun)
        if kind.name == "reduce_scatter" and x.device.type == "cpu":  # gloo's own takes longer
            total = result[0]
            for row in range(1, ranks):
                total = total + result[row]
            result = total
        return result.reshape(kind.shape(tuple(x.shape), ranks)).to(x.dtype)
