"""Describe the kinds of collectives: all that a mesh has to know to carry one out.

Each kind is a record below, and simulated ranks, processes, counters and `xg verify` read it. On a
mesh, a leading axis of an operand or a result counts the N ranks of a group:

    kind            operand        result
    all_reduce      [...]          [...]      the sum, the same bits on every rank
    all_reduce_max  [...]          [...]      the largest
    all_gather      [...]          [N, ...]   the operands of rank 0, 1, …
    reduce_scatter  [N, ...]       [...]      the sum of row i of every rank, on rank i
    all_to_all      [N, ...]       [N, ...]   row i of the operands of rank 0, 1, …, on rank i
    shift           [...]          [...]      that of the rank before; the first has the last's
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, NoReturn, Protocol

from xg_runtime.ranks.array_ops import Tensor, array_ops

Begun = tuple[Any, Tensor]  # torch's handle, and the flat result as it is once that has ended


class Group(Protocol):
    """Processes that call collectives together, on flat buffers: `backend.TorchGroup`.

    This module is imported without torch, where ranks are simulated.
    """

    def total(self, given: Tensor) -> Begun:
        """Sum over the processes."""
        ...

    def largest(self, given: Tensor) -> Begun:
        """Take the maximum over the processes."""
        ...

    def gather(self, given: Tensor) -> Begun:
        """Concatenate the buffers of all processes; `given` stays as it is."""
        ...

    def total_of_slices(self, given: Tensor) -> Begun:
        """Sum this process's slice of every buffer."""
        ...

    def exchange(self, given: Tensor) -> Begun:
        """Send slice i to process i."""
        ...

    def shift(self, given: Tensor) -> Begun:
        """Send to the next process, and receive from the one before."""
        ...


def _no_collective(*_: object) -> NoReturn:
    raise AssertionError("a send is no collective")


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """One kind of collective, or a send to one other rank.

    `simulate` takes the operands of a group in the order of its ranks, and returns their results:
    no two may share memory. `begin` does the same among processes. `operand_rows` and `result_rows`
    say which of both has a leading axis for the ranks; `sums` tells whether terms are added.
    """

    name: str
    simulate: Callable[[list[Tensor]], list[Tensor]] = _no_collective
    begin: Callable[[Group, Tensor], Begun] = _no_collective
    operand_rows: bool = False
    result_rows: bool = False
    sums: bool = False

    @property
    def grows(self) -> bool:
        """Tell whether the result is larger than the operand."""
        return self.result_rows and not self.operand_rows

    def shape(self, operand: tuple[int, ...], ranks: int) -> tuple[int, ...]:
        """Return the shape of a result from the shape of the operand."""
        row = operand[1:] if self.operand_rows else operand
        return (ranks, *row) if self.result_rows else row

    def result_without_sending(self, x: Tensor, place: int, ranks: int) -> Tensor:
        """Return what the rank at a place would have if nothing were sent: its own part."""
        own = x[place] if self.operand_rows else x
        return (
            array_ops(x).stack([own] * ranks)
            if self.result_rows
            else array_ops(x).contiguous_copy(own)
        )


def _total(parts: list[Tensor]) -> Tensor:
    """Sum in the order of ranks, in the parts' own type."""
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    return total


def _largest(parts: list[Tensor]) -> Tensor:
    largest = parts[0]
    for part in parts[1:]:
        largest = array_ops(part).maximum(largest, part)
    return largest


def _replicate(whole: Tensor, parts: list[Tensor]) -> list[Tensor]:
    """Copy for everybody: what one changes must not reach the others."""
    return [array_ops(whole).contiguous_copy(whole) for _ in parts]


def _rows(parts: list[Tensor]) -> list[list[Tensor]]:
    """Return for each rank the rows that all ranks have for it."""
    return [[part[place] for part in parts] for place in range(len(parts))]


ALL_REDUCE: Final = Kind(
    name="all_reduce",
    simulate=lambda parts: _replicate(_total(parts), parts),
    begin=lambda group, given: group.total(given),
    sums=True,
)
ALL_REDUCE_MAX: Final = Kind(
    name="all_reduce_max",
    simulate=lambda parts: _replicate(_largest(parts), parts),
    begin=lambda group, given: group.largest(given),
)
ALL_GATHER: Final = Kind(
    name="all_gather",
    simulate=lambda parts: _replicate(array_ops(parts[0]).stack(parts), parts),
    begin=lambda group, given: group.gather(given),
    result_rows=True,
)
REDUCE_SCATTER: Final = Kind(
    name="reduce_scatter",
    simulate=lambda parts: [_total(rows) for rows in _rows(parts)],
    begin=lambda group, given: group.total_of_slices(given),
    operand_rows=True,
    sums=True,
)
ALL_TO_ALL: Final = Kind(
    name="all_to_all",
    simulate=lambda parts: [array_ops(parts[0]).stack(rows) for rows in _rows(parts)],
    begin=lambda group, given: group.exchange(given),
    operand_rows=True,
    result_rows=True,
)
SHIFT: Final = Kind(
    name="shift",
    simulate=lambda parts: [parts[place - 1] for place in range(len(parts))],
    begin=lambda group, given: group.shift(given),
)
SEND: Final = Kind(name="send")  # along a pipeline; it has two ends, and no group
