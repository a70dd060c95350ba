"""The cells of a pipeline, and the orders in which its ranks compute them.

A cell is the forward or the backward pass of one microbatch on one stage. It depends on the same
pass of the microbatch on the neighbouring stage, and a backward cell on its own forward cell; every
order of these that ranks can run gives the same gradients, since each stage takes the microbatches
of a pass in turn.

    GPipe   all forward passes, then all backward passes: every microbatch is in memory at once
    1F1B    a backward pass as soon as there is one: at most as many as there are stages

A rank may have several stages, *interleaved*: of N ranks rank r has the stages r, N + r, 2N + r …,
and a microbatch goes round the ranks as often. Ranks wait less, and send more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from typing import Final


@dataclass(frozen=True, slots=True)
class Cell:
    """One pass of one microbatch, on a rank that its place in an order tells.

    `turn` says on which of the rank's stages: how often the microbatch has been here before.
    """

    backward: bool
    part: int
    turn: int = 0

    def __str__(self) -> str:
        return f"{'B' if self.backward else 'F'}{self.part}"

    def stage(self, rank: int, ranks: int) -> int:
        """The stage of a cell of a rank."""
        return self.turn * ranks + rank


Order = tuple[Cell, ...]
Orders = tuple[Order, ...]  # by rank


def gpipe(ranks: int, parts: int, turns: int = 1) -> Orders:
    """All forward passes, stage by stage, then all backward passes."""
    forward = [Cell(False, part, turn) for turn, part in product(range(turns), range(parts))]
    backward = [
        Cell(True, part, turn) for turn, part in product(reversed(range(turns)), range(parts))
    ]
    return ((*forward, *backward),) * ranks


def one_forward_one_backward(ranks: int, parts: int, turns: int = 1) -> Orders:
    """After as many forward passes as a rank has to be ahead, one forward and one backward in turn.

    With several turns microbatches go round in groups, one for each rank, so that the first is back
    when its group has passed.
    """
    passes = [
        (first + each, turn)
        for first in range(0, parts, ranks)
        for turn in range(turns)
        for each in range(min(ranks, parts - first))
    ]

    def order(rank: int) -> Order:
        after = ranks - 1 - rank
        ahead = min(after if turns == 1 else 2 * after + (turns - 1) * ranks, len(passes))
        forward = [Cell(False, part, turn) for part, turn in passes]
        backward = [Cell(True, part, turns - 1 - turn) for part, turn in passes]
        cells = forward[:ahead]
        for pair in zip(forward[ahead:], backward, strict=False):
            cells += pair
        return (*cells, *backward[len(passes) - ahead :])

    return tuple(map(order, range(ranks)))


SCHEDULES: Final[Mapping[str, Callable[[int, int, int], Orders]]] = {
    "1F1B": one_forward_one_backward,
    "GPipe": gpipe,
}


class Impossible(Exception):
    """Orders that no ranks can run: a cell twice or never, out of turn, a deadlock, mixed sends."""


def fits(ranks: int, parts: int, turns: int) -> bool:
    """Whether so many microbatches can go round several times: in groups of one for each rank."""
    return turns == 1 or parts % ranks == 0


def check(orders: Sequence[Order], parts: int, turns: int = 1) -> None:
    """Raise Impossible unless every cell is run once, in turn, behind those it depends on.

    Each rank has to receive from another in the order in which that one sends.
    """
    for rank, order in enumerate(orders):
        for backward, turn in product((False, True), range(turns)):
            found = [each.part for each in order if (each.backward, each.turn) == (backward, turn)]
            if found != list(range(parts)):
                name = "backward" if backward else "forward"
                stage = Cell(backward, 0, turn).stage(rank, len(orders))
                raise Impossible(f"stage {stage} takes its {name} passes as {found}")
    timeline(orders)
    _check_sends(orders)


def _check_sends(orders: Sequence[Order]) -> None:
    """Raise Impossible where two ranks do not have one order of what goes from one to the other."""
    ranks = len(orders)
    last = max((cell.turn for order in orders for cell in order), default=0) * ranks + ranks - 1
    sent: dict[tuple[int, int], list[tuple[int, Cell]]] = {}
    received: dict[tuple[int, int], list[tuple[int, Cell]]] = {}
    for rank, order in enumerate(orders):
        for cell in order:
            stage, way = cell.stage(rank, ranks), -1 if cell.backward else 1
            if 0 <= stage + way <= last:
                sent.setdefault((rank, (stage + way) % ranks), []).append((stage, cell))
            if 0 <= stage - way <= last:
                source = (stage - way) % ranks, rank
                turn = (stage - way) // ranks
                arrived = Cell(cell.backward, cell.part, turn)
                received.setdefault(source, []).append((stage - way, arrived))
    for (source, target), cells in sent.items():
        if cells != received.get((source, target)):
            raise Impossible(f"rank {target} awaits another order than rank {source} sends in")


@dataclass(frozen=True, slots=True)
class Slot:
    """The time that a cell takes on its rank."""

    rank: int
    cell: Cell
    start: int
    end: int


def timeline(orders: Sequence[Order], forward: int = 1, backward: int = 2) -> tuple[Slot, ...]:
    """When every cell runs, as early as its order and those it depends on let it; sends take none.

    Raises Impossible for orders in which all ranks wait.
    """
    ends: dict[tuple[int, Cell], int] = {}
    free = [0] * len(orders)
    places = [0] * len(orders)
    slots: list[Slot] = []
    turns = 1 + max((cell.turn for order in orders for cell in order), default=0)
    while any(place < len(order) for place, order in zip(places, orders, strict=True)):
        before = len(slots)
        for rank, order in enumerate(orders):
            while places[rank] < len(order):
                cell = order[places[rank]]
                needed = [ends.get(each) for each in _needed(rank, cell, len(orders), turns)]
                known = [end for end in needed if end is not None]
                if len(known) < len(needed):
                    break
                start = max([free[rank], *known])
                end = start + (backward if cell.backward else forward)
                ends[rank, cell] = free[rank] = end
                slots.append(Slot(rank, cell, start, end))
                places[rank] += 1
        if len(slots) == before:
            waits = [
                f"{s}: {o[p]}"
                for s, (p, o) in enumerate(zip(places, orders, strict=True))
                if p < len(o)
            ]
            raise Impossible(f"every rank waits, {', '.join(waits)}")
    return tuple(slots)


def _needed(rank: int, cell: Cell, ranks: int, turns: int) -> Iterator[tuple[int, Cell]]:
    """The cells that a cell depends on."""
    stage = cell.stage(rank, ranks)
    if cell.backward:
        yield rank, Cell(False, cell.part, cell.turn)
    before = stage + 1 if cell.backward else stage - 1
    if 0 <= before < ranks * turns:
        yield before % ranks, Cell(cell.backward, cell.part, before // ranks)


def bubble(orders: Sequence[Order], forward: int = 1, backward: int = 2) -> Fraction:
    """The share of the time in which a rank waits: (N_P - 1)/(turns*M + N_P - 1)."""
    slots = timeline(orders, forward, backward)
    whole = max(slot.end for slot in slots) * len(orders)
    return 1 - Fraction(sum(slot.end - slot.start for slot in slots), whole)


def in_flight(order: Order, sizes: Sequence[int] = ()) -> int:
    """The most of which a rank keeps what its backward passes need: passes of a microbatch.

    With `sizes`, what a pass on each of its stages keeps, it is the most of that.
    """
    kept = most = 0
    for cell in order:
        size = sizes[cell.turn] if sizes else 1
        kept += -size if cell.backward else size
        most = max(most, kept)
    return most
