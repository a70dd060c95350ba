"""Messages between stages pass though every send blocks until it is received."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from xg_runtime.cells import SCHEDULES, Cell, Impossible
from xg_runtime.errors import RankError
from xg_runtime.ranks import current, rank, simulate
from xg_runtime.ranks.call import Incoming, Outgoing
from xg_runtime.stage_messages import (
    Actions,
    Batch,
    check_actions,
    forward_actions,
    scheduled_actions,
)

Plant = Callable[[Actions], Actions]


def cases() -> Iterator[tuple[str, int, int, int]]:
    """Yield every schedule on some numbers of ranks, microbatches and stages of a rank."""
    for name, ranks, turns, groups in product(SCHEDULES, (1, 2, 3, 5), (1, 2, 3), (1, 2, 3)):
        yield name, ranks, groups * ranks, turns
    for name, ranks, parts in product(SCHEDULES, (2, 3, 5), (1, 4, 7)):
        yield name, ranks, parts, 1


def test_every_schedule_passes_where_sends_block() -> None:
    for name, ranks, parts, turns in cases():
        every = scheduled_actions(name, ranks, parts, turns)
        check_actions(every)
        cells = [[each for each in own if isinstance(each, Cell)] for own in every]
        assert cells == [list(order) for order in SCHEDULES[name](ranks, parts, turns)]
        check_actions(forward_actions(ranks, turns))


def test_the_first_message_on_each_way_tells_its_shape() -> None:
    for name, ranks, parts, turns in cases():
        opened: set[tuple[int, int, bool]] = set()
        for own in scheduled_actions(name, ranks, parts, turns):
            batches = [each for each in own if isinstance(each, Batch)]
            assert all(len(batch.sends) <= 1 for batch in batches)
            for each in (message for batch in batches for message in batch.sends):
                way = each.source, each.target, each.backward
                assert each.opens is (way not in opened)
                opened.add(way)


def run(every: Sequence[Actions]) -> None:
    """Run actions on simulated ranks, whose sends block."""

    def body() -> None:
        mesh = current()
        mesh.diverge("N_P")
        for each in every[rank("N_P")]:
            if isinstance(each, Batch):
                sends = [Outgoing(np.ones(2), m.target, str(m)) for m in each.sends]
                mesh.exchange("N_P", sends, [Incoming(m.source, str(m)) for m in each.receives])

    simulate({"N_P": len(every)}, body)


def apart(own: Actions) -> Actions:
    """Send before receiving, one message after the other, as naive code does."""
    return tuple(
        each
        for action in own
        for each in (
            [action]
            if isinstance(action, Cell)
            else [
                *(Batch(sends=(message,)) for message in action.sends),
                *(Batch(receives=(message,)) for message in action.receives),
            ]
        )
    )


def test_single_sends_of_1f1b_deadlock_and_batches_do_not() -> None:
    batched = scheduled_actions("1F1B", 2, 4, 1)
    check_actions(batched)
    run(batched)
    single = tuple(map(apart, batched))
    with pytest.raises(Impossible, match=r"^deadlock: rank 0 sends the output of microbatch 2 on"):
        check_actions(single)
    with pytest.raises(RankError, match=r"^rank 0 sends what rank 1 never receives") as caught:
        run(single)
    assert caught.value.details == ("rank 1 sends what rank 0 never receives",)


def without_sends(own: Actions) -> Actions:
    """Leave out the first message that is sent."""
    place = next(i for i, each in enumerate(own) if isinstance(each, Batch) and each.sends)
    return (*own[:place], *own[place + 1 :])


def reordered(own: Actions) -> Actions:
    """Exchange the places of the first two batches."""
    first, second = [i for i, each in enumerate(own) if isinstance(each, Batch)][:2]
    changed = list(own)
    changed[first], changed[second] = changed[second], changed[first]
    return tuple(changed)


def late(own: Actions) -> Actions:
    """Receive what a cell needs after the cell."""
    place = next(i for i, each in enumerate(own) if isinstance(each, Batch) and each.receives)
    batch = own[place]
    return (*own[:place], *own[place + 1 : place + 2], batch, *own[place + 2 :])


def foreign(own: Actions) -> Actions:
    """Post a message of another rank."""
    return tuple(
        replace(each, sends=each.receives, receives=()) if isinstance(each, Batch) else each
        for each in own
    )


@pytest.mark.parametrize(
    ("plant", "at", "said"),
    [
        (without_sends, 0, "rank 0 never sends the output of microbatch 0 on stage 0"),
        (reordered, 0, "rank 1 receives the output of microbatch 0 on stage 0, but rank 0 sends"),
        (late, 1, "deadlock: rank 0 sends .*; rank 1 waits to compute F0"),
        (foreign, 1, "rank 1 posts the output of microbatch 0 on stage 0, which is not its own"),
    ],
)
def test_a_planted_fault_is_refused_by_name(plant: Plant, at: int, said: str) -> None:
    every = list(scheduled_actions("GPipe", 2, 3, 1))
    every[at] = plant(every[at])
    with pytest.raises(Impossible, match=f"^{said}"):
        check_actions(every)


def test_a_message_that_no_rank_receives_is_refused_by_name() -> None:
    first, second = scheduled_actions("GPipe", 2, 1, 1)
    with pytest.raises(Impossible, match=r"^rank 1 never receives the output of microbatch 0"):
        check_actions([first, second[1:]])
