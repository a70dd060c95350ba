"""The messages between the stages of a pipeline, in an order that no transport can stop.

A transport may block a send until its target receives it, and with it all that this rank posts
later: NCCL may. Then two stages that both send before they receive wait for each other forever.

So all messages of a step have one order: the ticks at which the schedule makes them. Each rank
posts its own in that order, those of one tick in one batch. Look at the earliest batch that doesn't
end: its ranks have ended every earlier one, so all of them post it, and it ends. That holds for any
durations of cells; a schedule's durations only decide how long a message waits.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass
from functools import cache
from itertools import groupby

from xg_runtime.cells import SCHEDULES, Cell, Impossible, Orders, Slot, gpipe, timeline

Key = tuple[bool, int, int]  # whether it is a gradient, the stage that sends it, the microbatch


@dataclass(frozen=True, slots=True)
class Message:
    """The output or the gradient of one cell, from one rank to another.

    `tick` is when its cell ends. The first message of a step between two stages `opens` the way: it
    also sends the shape, which all later messages share.
    """

    tick: int
    source: int
    target: int
    stage: int
    part: int
    backward: bool
    opens: bool = False

    @property
    def key(self) -> Key:
        """Whether it is a gradient, and of which stage and microbatch."""
        return self.backward, self.stage, self.part

    def __str__(self) -> str:
        what = "gradient" if self.backward else "output"
        return f"the {what} of microbatch {self.part} on stage {self.stage}"


@dataclass(frozen=True, slots=True)
class Batch:
    """The messages that one rank sends and receives at once."""

    sends: tuple[Message, ...] = ()
    receives: tuple[Message, ...] = ()

    def __str__(self) -> str:
        sends = (f"sends {each} to rank {each.target}" for each in self.sends)
        receives = (f"receives {each} from rank {each.source}" for each in self.receives)
        return " and ".join((*sends, *receives))


Actions = tuple[Cell | Batch, ...]  # of one rank, in order


@cache
def scheduled_actions(schedule: str, ranks: int, parts: int, turns: int) -> tuple[Actions, ...]:
    """The actions of every rank in a step of a schedule, by rank."""
    return actions(SCHEDULES[schedule](ranks, parts, turns))


@cache
def forward_actions(ranks: int, turns: int) -> tuple[Actions, ...]:
    """The actions of every rank for the forward pass of one microbatch."""
    orders = gpipe(ranks, 1, turns)
    return actions(tuple(tuple(c for c in order if not c.backward) for order in orders))


def actions(orders: Orders) -> tuple[Actions, ...]:
    """Put the batches of messages between the cells of every rank.

    Raises Impossible for orders in which all ranks wait.
    """
    slots = timeline(orders)
    messages = [*_messages(slots, len(orders))]
    return tuple(tuple(_of_rank(rank, slots, messages)) for rank in range(len(orders)))


def check_actions(every: Sequence[Actions]) -> None:
    """Raise Impossible unless all ranks can finish even if sends block.

    Each message needs one send and one receive. A cell starts after the message that it needs has
    come. A batch ends once all of its messages are posted on both ranks, and blocks until then.
    """
    _check_pairs(every)
    places, passed = [0] * len(every), set[Message]()
    turns = 1 + max((a.turn for own in every for a in own if isinstance(a, Cell)), default=0)
    while any(place < len(own) for place, own in zip(places, every, strict=True)):
        before = tuple(places)
        current = [
            own[at] if at < len(own) else None for at, own in zip(places, every, strict=True)
        ]
        passed.update(_matches(current, passed))
        for rank, action in enumerate(current):
            if isinstance(action, Batch):
                places[rank] += passed.issuperset((*action.sends, *action.receives))
            elif action is not None:
                came = {each.key for each in passed if each.target == rank}
                places[rank] += came.issuperset(_needed(action, rank, len(every), turns))
        if tuple(places) == before:
            waits = [f"rank {rank} {_spell(each)}" for rank, each in enumerate(current) if each]
            raise Impossible(f"deadlock: {'; '.join(waits)}")


def _messages(slots: Sequence[Slot], ranks: int) -> Iterator[Message]:
    """Yield every message between two ranks, in the order of ticks."""
    turns = 1 + max((slot.cell.turn for slot in slots), default=0)
    opened: set[tuple[int, int, bool]] = set()
    for slot in sorted(slots, key=lambda slot: (slot.end, slot.rank)):
        cell = slot.cell
        stage = cell.stage(slot.rank, ranks)
        neighbor = stage - 1 if cell.backward else stage + 1
        target = neighbor % ranks
        if cell.sends and 0 <= neighbor < ranks * turns and target != slot.rank:
            way = slot.rank, target, cell.backward
            first = way not in opened
            opened.add(way)
            yield Message(slot.end, slot.rank, target, stage, cell.part, cell.backward, first)


def _of_rank(
    rank: int, slots: Sequence[Slot], messages: Sequence[Message]
) -> Iterator[Cell | Batch]:
    """Yield the cells and batches of a rank.

    Messages that come while a cell runs are posted before it, so that they travel beside it.
    """
    own = [slot for slot in slots if slot.rank == rank]
    mine = [each for each in messages if rank in (each.source, each.target)]
    batches = [(tick, [*found]) for tick, found in groupby(mine, key=lambda each: each.tick)]
    for slot in own:
        while batches and batches[0][0] < slot.end:
            yield _batch(rank, batches.pop(0)[1])
        yield slot.cell
    for _, found in batches:
        yield _batch(rank, found)


def _batch(rank: int, found: Sequence[Message]) -> Batch:
    sends = tuple(each for each in found if each.source == rank)
    return Batch(sends, tuple(each for each in found if each.target == rank))


def _check_pairs(every: Sequence[Actions]) -> None:
    """Raise Impossible for a message that is sent and not received, or the other way round."""
    sent, received = Counter[Message](), Counter[Message]()
    for rank, own in enumerate(every):
        for batch in own:
            if isinstance(batch, Batch):
                sent.update(batch.sends)
                received.update(batch.receives)
                wrong = [m for m in batch.sends if m.source != rank]
                wrong += [m for m in batch.receives if m.target != rank]
                if wrong:
                    raise Impossible(f"rank {rank} posts {wrong[0]}, which is not its own")
    for message in sent - received:
        raise Impossible(f"rank {message.target} never receives {message}")
    for message in received - sent:
        raise Impossible(f"rank {message.source} never sends {message}")


def _matches(current: Sequence[Cell | Batch | None], passed: Set[Message]) -> Iterator[Message]:
    """Yield the messages that are posted on both ranks, in the order in which one rank sends."""
    for source, batch in enumerate(current):
        sends = batch.sends if isinstance(batch, Batch) else ()
        for target in dict.fromkeys(each.target for each in sends):
            there = current[target]
            receives = there.receives if isinstance(there, Batch) else ()
            ours = [each for each in sends if each.target == target and each not in passed]
            theirs = [each for each in receives if each.source == source and each not in passed]
            for sent, expected in zip(ours, theirs, strict=False):
                if sent != expected:
                    raise Impossible(
                        f"rank {target} receives {expected}, but rank {source} sends {sent}"
                    )
                yield sent


def _needed(cell: Cell, rank: int, ranks: int, turns: int) -> Iterator[Key]:
    """Yield what a cell needs from another rank."""
    stage = cell.stage(rank, ranks)
    before = stage + 1 if cell.backward else stage - 1
    if cell.sends and ranks > 1 and 0 <= before < ranks * turns:
        yield cell.backward, before, cell.part


def _spell(action: Cell | Batch) -> str:
    return str(action) if isinstance(action, Batch) else f"waits to compute {action}"
