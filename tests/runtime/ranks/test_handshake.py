"""Ranks compare what they are about to run before their first step."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

import pytest
import torch.distributed as dist

from xg_runtime.errors import InputError, RankError, XgRuntimeError
from xg_runtime.ranks import handshake
from xg_runtime.ranks.call import CollectiveFailed, failure_of
from xg_runtime.ranks.grid import Grid
from xg_runtime.ranks.handshake import check_world, shake_hands
from xg_runtime.ranks.joining import _own_facts  # pyright: ignore[reportPrivateUsage]
from xg_runtime.ranks.terms import Terms

GRID = Grid({"N_T": 3})


def greet(*facts: Mapping[str, str]) -> list[XgRuntimeError | None]:
    """The error of each rank, or None, when all of them greet at once."""
    untyped: Any = dist
    store = untyped.HashStore()
    found: list[XgRuntimeError | None] = [None] * len(facts)

    def of(rank: int) -> None:
        try:
            shake_hands(store, GRID, rank, facts[rank])
        except XgRuntimeError as error:
            found[rank] = error

    threads = [threading.Thread(target=of, args=(rank,)) for rank in range(len(facts))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


def test_equal_ranks_go_on() -> None:
    assert greet(*[{"plan": "a", "version": "1"}] * 3) == [None] * 3


@pytest.mark.parametrize(
    ("theirs", "told"),
    [
        ({"plan": "b", "version": "1"}, "rank 2 has plan b, rank 0 has plan a"),
        ({"plan": "a"}, "rank 2 has no version, rank 0 has version 1"),
        ({"plan": "a", "version": "1", "dtype": "x"}, "rank 2 has dtype x, rank 0 has no dtype"),
    ],
)
def test_every_rank_learns_who_differs_in_what(theirs: dict[str, str], told: str) -> None:
    ours = {"plan": "a", "version": "1"}
    for error in greet(ours, ours, theirs):
        assert isinstance(error, RankError)
        assert error.rank == 2
        assert error.message.startswith(told)


def test_who_does_not_come_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handshake, "PATIENCE", 0.2)
    for error in greet({}, {}):
        assert isinstance(error, CollectiveFailed)
        assert error.message == "rank 2 did not come within 0.2 s"


def test_the_mesh_has_as_many_ranks_as_there_are_processes() -> None:
    check_world(GRID, 3)
    with pytest.raises(InputError, match=r"the mesh \(N_T = 3\) has 3 ranks, and 1 process was"):
        check_world(GRID, 1)


def test_errors_of_torch_are_told_apart() -> None:
    lost = "[../gloo/transport/tcp/pair.cc:534] Connection closed by peer [127.0.0.1]:2001"
    late = "Timed out waiting 3000ms for recv operation to complete"
    other = RuntimeError("Invalid scalar type")
    for text, told in ((lost, "another rank is gone"), (late, "other ranks did not come")):
        error = failure_of(RuntimeError(text), "all_reduce over N_T", 2, 3.0)
        assert isinstance(error, CollectiveFailed)
        assert error.message.startswith(f"in collective 3, all_reduce over N_T: {told}")
    assert failure_of(other, "all_reduce over N_T", 2, 3.0) is other


def test_no_communicators_are_not_all_of_them() -> None:
    """Ranks that make other groups would wait for each other: they are refused."""
    facts = [_own_facts(GRID, Terms(communicators=made)) for made in (None, (), None)]
    error = next(each for each in greet(*facts) if each is not None)
    assert isinstance(error, RankError)
    assert "communicators" in str(error)
