"""All ranks that train one model, as one of them sees them. A single device is a world of one.

The interface of a training step to the other ranks is here, and nothing of how they are reached:
`SINGLE_DEVICE` is a device without others, `xg_runtime.ranks.world` one rank of many.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, Final, Protocol

from xg_runtime import checkpoint
from xg_runtime.checkpoint import Checkpoint, Form
from xg_runtime.module import Arrays
from xg_runtime.optim import squares


class World(Protocol):
    """Operations of all ranks together; every rank has to call the same, in the same order."""

    @property
    def leads(self) -> bool:
        """Whether this rank writes the log and shows the progress."""
        ...

    def part(self, inputs: Arrays) -> Arrays:
        """This rank's part of whole inputs; raises InputError where they cannot be cut."""
        ...

    def whole(self, arrays: Arrays) -> Arrays:
        """Gather outputs or parameters from the parts that the ranks hold."""
        ...

    def held(self, params: Arrays) -> Arrays:
        """The parameters for passes between which they do not change."""
        ...

    def holding(self, held: dict[str, Any], *, is_last: bool) -> AbstractContextManager[None]:
        """Inside, sums over ranks of gradients wait for the last of several backward passes.

        `held` is empty before the first, and the same for all of them.
        """
        ...

    def squares(self, gradients: Arrays) -> float:
        """The sum of squares over all whole gradients, the same bits on every rank."""
        ...

    def max_over_ranks(self, number: int) -> int:
        """The largest number that any rank says."""
        ...

    def first(self, place: int, name: str) -> str:
        """The name that is said with the smallest place; "" where every rank says ""."""
        ...

    def save(self, run: Path, state: Checkpoint, form: Form) -> None:
        """Write a checkpoint of the parts of all; raises FileError, InputError without torch."""
        ...

    def load(self, run: Path, *, previous: bool) -> Checkpoint:
        """This rank's part of a checkpoint; raises CheckpointError, FileError."""
        ...


class _SingleDevice:
    """A world of one."""

    leads = True

    def part(self, inputs: Arrays) -> Arrays:
        return inputs

    def whole(self, arrays: Arrays) -> Arrays:
        return arrays

    def held(self, params: Arrays) -> Arrays:
        return params

    def holding(self, held: dict[str, Any], *, is_last: bool) -> AbstractContextManager[None]:
        del held, is_last
        return nullcontext()

    def squares(self, gradients: Arrays) -> float:
        return squares(gradients)

    def max_over_ranks(self, number: int) -> int:
        return number

    def first(self, place: int, name: str) -> str:
        del place
        return name

    def save(self, run: Path, state: Checkpoint, form: Form) -> None:
        checkpoint.save(run, state, form)

    def load(self, run: Path, *, previous: bool) -> Checkpoint:
        return checkpoint.load(run, previous=previous)


SINGLE_DEVICE: Final[World] = _SingleDevice()
