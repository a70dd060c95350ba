"""Ranks meet in a store in which earlier starts have left what they wrote."""

from __future__ import annotations

import threading
from typing import Any

import pytest
import torch.distributed as dist

from xg_runtime.ranks.call import CollectiveFailed
from xg_runtime.ranks.grid import Grid
from xg_runtime.ranks.handshake import Start, rendezvous

GRID = Grid({"N_T": 3})


def new_store() -> Any:  # noqa: ANN401 - torch's stores have no type
    untyped: Any = dist
    return untyped.HashStore()


def meet(store: Any, *ranks: int) -> list[Start | CollectiveFailed]:  # noqa: ANN401
    """The start or the error of each rank, when all of them call at once."""
    found: dict[int, Start | CollectiveFailed] = {}

    def of(rank: int) -> None:
        try:
            found[rank] = rendezvous(store, GRID, rank)
        except CollectiveFailed as error:
            found[rank] = error

    threads = [threading.Thread(target=of, args=(rank,)) for rank in ranks]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [found[rank] for rank in ranks]


def test_all_ranks_of_a_start_know_it_by_one_name() -> None:
    store = new_store()
    first, second = meet(store, 0, 1, 2), meet(store, 2, 0, 1)
    for starts, again in ((first, False), (second, True)):
        assert len(set(map(repr, starts))) == 1
        assert isinstance(starts[0], Start)
        assert starts[0].again is again
    assert first[0] != second[0]


@pytest.mark.parametrize("missing", [0, 1, 2])
@pytest.mark.parametrize("started", [False, True])
def test_who_does_not_come_is_named_whatever_earlier_starts_left(
    missing: int, *, started: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = new_store()
    if started:
        meet(store, 0, 1, 2)
    monkeypatch.setattr("xg_runtime.ranks.handshake.PATIENCE", 0.3)
    for error in meet(store, *(rank for rank in range(3) if rank != missing)):
        assert isinstance(error, CollectiveFailed)
        assert error.message == f"rank {missing} did not come within 0.3 s"


def test_a_rank_that_comes_late_is_waited_for() -> None:
    store = new_store()
    meet(store, 0, 1, 2)
    late = threading.Timer(0.2, lambda: meet(store, 1))
    late.start()
    starts = meet(store, 0, 2)
    late.join()
    assert starts[0] == starts[1]
    assert isinstance(starts[0], Start)
