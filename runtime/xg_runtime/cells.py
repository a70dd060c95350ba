"""The cells of a pipeline, and the orders in which its ranks compute them.

A cell is the forward or the backward pass of one microbatch on one stage, or a half of a backward
pass. It depends on the same
pass of the microbatch on the neighboring stage, and a backward cell on its own forward cell; every
order of these that ranks can run gives the same gradients, since each stage takes the microbatches
of a pass in turn.

    GPipe   all forward passes, then all backward passes: every microbatch is in memory at once
    1F1B    a backward pass as soon as there is one: at most as many as there are stages
    ZBH1    the same with the backward pass in two: gradients of inputs, which the stage before
            waits for, and those of parameters, which fill the time in which a rank would wait

A rank may have several stages, *interleaved*: of N ranks rank r has the stages r, N + r, 2N + r …,
and a microbatch goes round the ranks as often. Ranks wait less, and send more.

In its last cell a rank computes and sends the gradients of inputs first, because the stage before
waits for those. It doesn't do so in every cell: the saved values would stay in memory, and 1F1B
exists to limit memory. Costs still price the cell as a whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import product
from typing import Final, Literal


@dataclass(frozen=True, slots=True)
class Cell:
    """One pass of one microbatch, on a rank that its place in an order tells.

    `turn` says on which of the rank's stages: how often the microbatch has been here before. A half
    of a backward pass gives the gradients of inputs, or those of parameters.
    """

    backward: bool
    part: int
    turn: int = 0
    half: Literal["", "inputs", "weights"] = ""

    def __str__(self) -> str:
        way = "W" if self.half == "weights" else "B" if self.backward else "F"
        return f"{way}{self.part}"

    @property
    def sends(self) -> bool:
        """Whether a neighboring stage waits for it."""
        return self.half != "weights"

    @property
    def releases(self) -> bool:
        """Return whether nothing needs the saved values of the forward pass after this cell."""
        return self.backward and self.half != "inputs"

    def lasts(self, forward: int, backward: int) -> int:
        """How long it takes: a half as long as the other."""
        return (backward // 2 if self.half else backward) if self.backward else forward

    def stage(self, rank: int, ranks: int) -> int:
        """The stage of a cell of a rank."""
        return self.turn * ranks + rank


HALVES: Final = [(False, ""), (True, "inputs"), (True, "weights")]
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


def zero_bubble(ranks: int, parts: int, turns: int = 1) -> Orders:
    """1F1B in halves: gradients of parameters where a rank would wait, or keep too much.

    No rank keeps more than the first of 1F1B. Forward passes and both halves take one time each.
    """
    plain = one_forward_one_backward(ranks, parts, turns)
    main = [[_half(cell, "inputs") for cell in order] for order in plain]
    limit = max(map(in_flight, plain))
    orders: list[list[Cell]] = [[] for _ in range(ranks)]
    waiting: list[list[Cell]] = [[] for _ in range(ranks)]
    ended: dict[tuple[int, Cell], int] = {}
    kept, now = [0] * ranks, 0
    while any(main) or any(waiting):
        for rank in range(ranks):
            cell = main[rank][0] if main[rank] else None
            needed = _dependencies(rank, cell, ranks, turns, "inputs") if cell else ()
            can = all(ended.get(each, now + 1) <= now for each in needed)
            if cell and can and (cell.backward or kept[rank] < limit):
                orders[rank].append(main[rank].pop(0))
                ended[rank, cell] = now + 1
                if cell.backward:
                    waiting[rank].append(_half(cell, "weights"))
                else:
                    kept[rank] += 1
            elif waiting[rank]:
                orders[rank].append(waiting[rank].pop(0))
                kept[rank] -= 1
        now += 1
    return tuple(map(tuple, orders))


def _half(cell: Cell, half: Literal["inputs", "weights"]) -> Cell:
    return replace(cell, half=half) if cell.backward else cell


SCHEDULES: Final[Mapping[str, Callable[[int, int, int], Orders]]] = {
    "1F1B": one_forward_one_backward,
    "GPipe": gpipe,
    "ZBH1": zero_bubble,
}


class Impossible(Exception):
    """Orders that no ranks can run: a cell twice or never, out of turn, a deadlock."""


def fits(ranks: int, parts: int, turns: int) -> bool:
    """Return whether `parts` microbatches fit: several turns need a multiple of the ranks."""
    return turns == 1 or parts % ranks == 0


def check(orders: Sequence[Order], parts: int, turns: int = 1) -> None:
    """Raise Impossible unless every cell runs once, in order, after the cells it depends on.

    Any such order has messages that pass: see `xg_runtime.stage_messages`.
    """
    for rank, order in enumerate(orders):
        whole = not any(cell.half for cell in order)
        passes = [(False, ""), (True, "")] if whole else HALVES
        for (backward, half), turn in product(passes, range(turns)):
            found = [
                e.part for e in order if (e.backward, e.half, e.turn) == (backward, half, turn)
            ]
            if found != list(range(parts)):
                name = "backward" if backward else "forward"
                of = f", {half}," if half else ""
                stage = Cell(backward, 0, turn).stage(rank, len(orders))
                raise Impossible(f"stage {stage} takes its {name} passes{of} as {found}")
    timeline(orders)


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
    halved = [any(cell.half for cell in order) for order in orders]
    while any(place < len(order) for place, order in zip(places, orders, strict=True)):
        before = len(slots)
        for rank, order in enumerate(orders):
            while places[rank] < len(order):
                cell = order[places[rank]]
                half = "inputs" if halved[rank] else ""
                asked = _dependencies(rank, cell, len(orders), turns, half)
                needed = [ends.get(each) for each in asked]
                known = [end for end in needed if end is not None]
                if len(known) < len(needed):
                    break
                start = max([free[rank], *known])
                end = start + cell.lasts(forward, backward)
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


def _dependencies(
    rank: int, cell: Cell, ranks: int, turns: int, half: Literal["", "inputs"]
) -> Iterator[tuple[int, Cell]]:
    """The cells that a cell depends on; `half` is the part of a backward pass that is sent."""
    stage = cell.stage(rank, ranks)
    if cell.half == "weights":
        yield rank, replace(cell, half=half)
        return
    if cell.backward:
        yield rank, Cell(False, cell.part, cell.turn)
    before = stage + 1 if cell.backward else stage - 1
    if 0 <= before < ranks * turns:
        yield before % ranks, replace(cell, turn=before // ranks)


def bubble(orders: Sequence[Order], forward: int = 1, backward: int = 2) -> Fraction:
    """The share of the time in which a rank waits: (N_P - 1)/(turns*M + N_P - 1).

    In halves it is (N_P - 1)/(3*turns*M + N_P - 1), of at least as many microbatches as ranks.
    """
    slots = timeline(orders, forward, backward)
    whole = max(slot.end for slot in slots) * len(orders)
    return 1 - Fraction(sum(slot.end - slot.start for slot in slots), whole)


def in_flight(order: Order, sizes: Sequence[int] = ()) -> int:
    """Return the most microbatch passes whose saved values a rank holds at once.

    With `sizes`, what a pass on each of its stages keeps, it is the most of that.
    """
    kept = most = 0
    for cell in order:
        size = sizes[cell.turn] if sizes else 1
        if cell.releases or not cell.backward:
            kept += -size if cell.backward else size
        most = max(most, kept)
    return most
