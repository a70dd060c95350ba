"""One rank of a training run on many: it sees its part of everything.

Parameters, gradients and optimizer slots are placed as in the plan, and the derived backward pass
has already reduced gradients: an update of the parts is the update of the whole. This module does
the rest, across all parameters or all ranks: the norm, the end, the checkpoint.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import numpy as np

from xg_runtime.checkpoint import Checkpoint, Form, on_ranks
from xg_runtime.checkpoint.manifest import RankCuts
from xg_runtime.errors import InputError
from xg_runtime.held import Held
from xg_runtime.module import Array, Arrays
from xg_runtime.optim import squares
from xg_runtime.ranks.collectives import all_gather, all_reduce, all_reduce_max
from xg_runtime.ranks.local import number, rank
from xg_runtime.ranks.mesh import current
from xg_runtime.ranks.parts import Cut, Cuts, gather_shards, local_shards
from xg_runtime.ranks.pipeline import Link, writers
from xg_runtime.ranks.sums import holding

_ROOM: Final = 256  # bytes of a name


@dataclass(frozen=True)
class RankWorld:
    """The world of the running rank; `cuts` of parameters, inputs and outputs are the module's.

    `plan` is the name that the checkpoint records; `links` are the stages of a pipeline that this
    rank has. Stages have parameters of their own: those of these are in `cuts`.
    """

    cuts: Mapping[str, Cuts]
    plan: str
    links: Sequence[Link] = ()

    @property
    def leads(self) -> bool:
        """Whether this is the first rank."""
        return number() == 0

    def part(self, inputs: Arrays) -> Arrays:
        """This rank's part of whole inputs; raises InputError where they cannot be cut."""
        try:
            return local_shards(inputs, self.cuts)
        except InputError as error:
            shapes = ", ".join(f"{name} {list(array.shape)}" for name, array in inputs.items())
            raise InputError(f"a batch of {shapes}: {error.message}") from error

    def whole(self, arrays: Arrays) -> Arrays:
        """Gather outputs or parameters from the parts that the ranks hold."""
        return gather_shards(arrays, self.cuts)

    def held(self, params: Arrays) -> Arrays:
        """This rank's shards, with room for those that a plan holds whole for all passes."""
        return Held(params)

    def holding(self, held: dict[str, Any], *, is_last: bool) -> AbstractContextManager[None]:
        """Inside, sums over ranks of gradients wait for the last of several backward passes.

        Only those that fused code defers (`sums`); the readable form sums at once.
        """
        return holding(held, is_last=is_last)

    def squares(self, gradients: Arrays) -> float:
        """The sum of squares over all whole gradients, the same bits on every rank.

        Of replicas the first counts. The others have to be finite as well.
        """
        ours = squares({n: array for n, array in gradients.items() if self._writes_for(n)})
        if not math.isfinite(squares(gradients)):
            ours = math.nan
        total = np.array(ours)
        for axis in current().sizes:
            total = all_reduce(total, axis)
        return float(total)

    def max_over_ranks(self, number: int) -> int:
        """The largest number that any rank says."""
        largest = np.array(number)
        for axis in current().sizes:
            largest = all_reduce_max(largest, axis)
        return int(largest)

    def first(self, place: int, name: str) -> str:
        """The name that is said with the smallest place; "" where every rank says ""."""
        said = name.encode()[:_ROOM].ljust(_ROOM)
        mine = np.frombuffer((place if name else 2**62).to_bytes(8, "big") + said, np.uint8)
        rows: Array = mine[None]
        for axis in reversed(list(current().sizes)):
            rows = all_gather(rows, axis, -2)
        return min(row.tobytes() for row in rows)[8:].rstrip().decode("utf-8", "replace")

    def save(self, run: Path, state: Checkpoint, form: Form) -> None:
        """Write a checkpoint of the parts of all; raises FileError, InputError without torch."""
        cuts, plan, links = self._saved_cuts, self.plan, self.links
        on_ranks.save(run, state, cuts, plan=plan, links=links, form=form)

    def load(self, run: Path, *, previous: bool) -> Checkpoint:
        """This rank's part of a checkpoint of any mesh; raises CheckpointError, FileError."""
        return on_ranks.load(
            run,
            self._saved_cuts,
            previous=previous,
            has=lambda name: not self.links or name in self.cuts,
        )

    def _writes_for(self, name: str) -> bool:
        """Whether this is the first of the ranks that hold the same part of a parameter."""
        cutting = {over for _, over, *_ in self.cuts.get(name, ())}
        counts = {link.axis: writers(self.links).get(name, link.rank) for link in self.links[:1]}
        sizes = current().sizes
        return all(axis in cutting or rank(axis) == counts.get(axis, 0) for axis in sizes)

    @cached_property
    def _saved_cuts(self) -> dict[str, RankCuts]:
        """The cuts in the words of checkpoints."""
        return {name: tuple(map(_saved, cuts)) for name, cuts in self.cuts.items()}


def _saved(cut: Cut) -> tuple[str, int] | tuple[str, int, int]:
    return (cut[1], cut[0]) if len(cut) == 2 else (cut[1], cut[0], cut[2])
