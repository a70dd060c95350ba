"""The cells of a pipeline, and the orders in which its stages compute them.

A cell is the forward or the backward pass of one microbatch on one stage. It depends on the same
pass of the microbatch on the neighbouring stage, and a backward cell on its own forward cell; every
order of these that a stage can run gives the same gradients, since it takes the microbatches of a
pass in turn.

    GPipe   all forward passes, then all backward passes: every microbatch is in memory at once
    1F1B    a backward pass as soon as there is one: at most as many as there are stages
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final


@dataclass(frozen=True, slots=True)
class Cell:
    """One pass of one microbatch, on a stage that its place in an order tells."""

    backward: bool
    part: int

    def __str__(self) -> str:
        return f"{'B' if self.backward else 'F'}{self.part}"


Order = tuple[Cell, ...]
Orders = tuple[Order, ...]  # by stage


def gpipe(stages: int, parts: int) -> Orders:
    """All forward passes, then all backward passes."""
    forward = tuple(Cell(False, part) for part in range(parts))
    return (forward + tuple(Cell(True, part) for part in range(parts)),) * stages


def one_forward_one_backward(stages: int, parts: int) -> Orders:
    """After as many forward passes as stages follow, one forward and one backward in turn."""

    def order(stage: int) -> Order:
        ahead = min(stages - 1 - stage, parts)
        cells = [Cell(False, part) for part in range(ahead)]
        for part in range(parts - ahead):
            cells += [Cell(False, ahead + part), Cell(True, part)]
        return (*cells, *(Cell(True, part) for part in range(parts - ahead, parts)))

    return tuple(map(order, range(stages)))


SCHEDULES: Final[Mapping[str, Callable[[int, int], Orders]]] = {
    "1F1B": one_forward_one_backward,
    "GPipe": gpipe,
}


class Impossible(Exception):
    """Orders that no stages can run: a cell twice or never, out of turn, or a deadlock."""


def check(orders: Sequence[Order], parts: int) -> None:
    """Raise Impossible unless every cell is run once, in turn, behind those it depends on.

    Microbatches of a pass come in turn, so that both ends of a send have the same order.
    """
    for stage, order in enumerate(orders):
        for backward in (False, True):
            turns = [cell.part for cell in order if cell.backward == backward]
            if turns != list(range(parts)):
                name = "backward" if backward else "forward"
                raise Impossible(f"stage {stage} takes its {name} passes as {turns}")
    timeline(orders)


@dataclass(frozen=True, slots=True)
class Slot:
    """The time that a cell takes on its stage."""

    stage: int
    cell: Cell
    start: int
    end: int


def timeline(orders: Sequence[Order], forward: int = 1, backward: int = 2) -> tuple[Slot, ...]:
    """When every cell runs, as early as its order and those it depends on let it; sends take none.

    Raises Impossible for orders in which all stages wait.
    """
    ends: dict[tuple[int, Cell], int] = {}
    free = [0] * len(orders)
    places = [0] * len(orders)
    slots: list[Slot] = []
    while any(place < len(order) for place, order in zip(places, orders, strict=True)):
        before = len(slots)
        for stage, order in enumerate(orders):
            while places[stage] < len(order):
                cell = order[places[stage]]
                needed = _needed(stage, cell, len(orders))
                if any(each not in ends for each in needed):
                    break
                start = max([free[stage], *(ends[each] for each in needed)])
                end = start + (backward if cell.backward else forward)
                ends[stage, cell] = free[stage] = end
                slots.append(Slot(stage, cell, start, end))
                places[stage] += 1
        if len(slots) == before:
            waits = [
                f"{s}: {o[p]}"
                for s, (p, o) in enumerate(zip(places, orders, strict=True))
                if p < len(o)
            ]
            raise Impossible(f"every stage waits, {', '.join(waits)}")
    return tuple(slots)


def _needed(stage: int, cell: Cell, stages: int) -> list[tuple[int, Cell]]:
    """The cells that a cell depends on."""
    if not cell.backward:
        return [(stage - 1, cell)] if stage else []
    own = [(stage, Cell(False, cell.part))]
    return own + ([(stage + 1, cell)] if stage + 1 < stages else [])


def bubble(orders: Sequence[Order], forward: int = 1, backward: int = 2) -> Fraction:
    """The share of the time in which a stage waits: of 1F1B and GPipe (N_P - 1)/(M + N_P - 1)."""
    slots = timeline(orders, forward, backward)
    whole = max(slot.end for slot in slots) * len(orders)
    return 1 - Fraction(sum(slot.end - slot.start for slot in slots), whole)


def in_flight(order: Order) -> int:
    """The most microbatches of which a stage keeps what its backward passes need."""
    kept = most = 0
    for cell in order:
        kept += -1 if cell.backward else 1
        most = max(most, kept)
    return most
