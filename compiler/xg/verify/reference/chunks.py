"""The part of an axis that a rank has, and the axis of all parts, in either order of the ranks."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from xg.ir.mesh_axes import is_zigzag
from xg_runtime.module import Array


def part_of(whole: Array, rank: int, ranks: int, over: str, axis: int) -> Array:
    """The part of one rank: a chunk, or in zigzag one from each end."""
    if not is_zigzag(over):
        return np.split(whole, ranks, axis)[rank]
    chunks = np.split(whole, 2 * ranks, axis)
    return np.concatenate([chunks[rank], chunks[-1 - rank]], axis)


def whole_of(parts: Sequence[Array], over: str, axis: int) -> Array:
    """The axis of which all ranks have these parts."""
    if not is_zigzag(over):
        return np.concatenate(parts, axis)
    halves = [np.split(part, 2, axis) for part in parts]
    return np.concatenate([*(first for first, _ in halves), *(b for _, b in halves[::-1])], axis)
