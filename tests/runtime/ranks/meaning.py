"""The meaning of every collective, in plain NumPy on lists of one group's arrays."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from xg_runtime.ranks import (
    all_gather,
    all_reduce,
    all_reduce_max,
    all_to_all,
    first_rank_only,
    pad_from_shard,
    reduce_scatter,
    shard_slice,
    shift,
)
from xg_runtime.ranks.grid import Grid

Array = NDArray[Any]
Parts = Sequence[Array]

MESHES: list[dict[str, int]] = [
    {"N_T": 1},
    {"N_T": 2},
    {"N_T": 3},
    {"N_D": 2, "N_T": 3},
]
TOGETHER = [  # several axes as one, neighbors and others
    ({"N_D": 2, "N_T": 3}, "N_D*N_T"),
    ({"N_A": 2, "N_D": 2, "N_T": 3}, "N_A*N_T"),
]


def _total(parts: Parts) -> Array:
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    return total


def _exchanged(parts: Parts, split: int, concat: int) -> list[Array]:
    cut = [np.split(part, len(parts), split) for part in parts]
    return [np.concatenate([row[to] for row in cut], concat) for to in range(len(parts))]


def _spread(parts: Parts, axis: int) -> list[Array]:
    zero = np.zeros_like(parts[0])
    return [
        np.concatenate([part if i == j else zero for j in range(len(parts))], axis)
        for i, part in enumerate(parts)
    ]


# name: what a rank calls, and what the ranks of a group hold then
CASES: Mapping[str, tuple[Callable[[Array, str], Array], Callable[[Parts], Sequence[Array]]]] = {
    "all_reduce": (all_reduce, lambda parts: [_total(parts)] * len(parts)),
    "all_reduce_max": (all_reduce_max, lambda parts: [np.max(np.stack(parts), 0)] * len(parts)),
    "all_gather -1": (
        lambda x, over: all_gather(x, over, -1),
        lambda parts: [np.concatenate(parts, -1)] * len(parts),
    ),
    "all_gather -3": (
        lambda x, over: all_gather(x, over, -3),
        lambda parts: [np.concatenate(parts, -3)] * len(parts),
    ),
    "reduce_scatter -2": (
        lambda x, over: reduce_scatter(x, over, -2),
        lambda parts: np.split(_total(parts), len(parts), -2),
    ),
    "reduce_scatter -3": (
        lambda x, over: reduce_scatter(x, over, -3),
        lambda parts: np.split(_total(parts), len(parts), -3),
    ),
    "all_to_all -3 -1": (
        lambda x, over: all_to_all(x, over, -3, -1),
        lambda parts: _exchanged(parts, -3, -1),
    ),
    "all_to_all -1 -2": (
        lambda x, over: all_to_all(x, over, -1, -2),
        lambda parts: _exchanged(parts, -1, -2),
    ),
    "shift": (shift, lambda parts: [parts[place - 1] for place in range(len(parts))]),
    "shard_slice -2": (
        lambda x, over: shard_slice(x, over, -2),
        lambda parts: [np.split(part, len(parts), -2)[place] for place, part in enumerate(parts)],
    ),
    "first_rank_only": (
        first_rank_only,
        lambda parts: [part if at == 0 else np.zeros_like(part) for at, part in enumerate(parts)],
    ),
    "pad_from_shard -1": (
        lambda x, over: pad_from_shard(x, over, -1),
        lambda parts: _spread(parts, -1),
    ),
}


def on_mesh(
    sizes: Mapping[str, int], over: str, held: Parts, of_group: Callable[[Parts], Sequence[Array]]
) -> list[Array]:
    """The array of every rank of a mesh after each group along `over` has done its part."""
    grid = Grid(sizes)
    found: dict[int, Array] = {}
    for rank in range(grid.count):
        group = grid.group(rank, over)
        found[rank] = of_group([held[member] for member in group])[group.index(rank)]
    return [found[rank] for rank in range(grid.count)]


def tensor(array: Array) -> torch.Tensor:
    """The torch tensor of an array."""
    return torch.as_tensor(array)


def same(found: Array, expected: Array) -> bool:
    """Whether two arrays are the same, bit for bit."""
    return (found.dtype, found.shape) == (expected.dtype, expected.shape) and (
        np.ascontiguousarray(found).tobytes() == np.ascontiguousarray(expected).tobytes()
    )
