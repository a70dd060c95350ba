"""A run whose ranks disagree ends at once, and reports which ranks differ and where."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable

import numpy as np
import pytest

from xg_runtime.errors import NonFiniteError, RankError
from xg_runtime.ranks import all_gather, all_reduce, rank, simulate, start_all_reduce
from xg_runtime.ranks.call import Incoming, Outgoing
from xg_runtime.ranks.mesh import current

X = np.zeros((2, 3))


def _order() -> None:
    axes = ("N_D", "N_T") if rank("N_T") == 0 else ("N_T", "N_D")
    for axis in axes:
        all_reduce(X, axis)


def _fewer() -> None:
    all_reduce(X, "N_T")
    if rank("N_D") == 0 or rank("N_T") == 0:
        all_reduce(X, "N_T")


CASES: dict[str, tuple[Callable[[], object], int, str]] = {
    "order of axes": (
        _order,
        1,
        "rank 1 (N_D = 0, N_T = 1) called all_reduce over N_T of float64 [2, 3] where rank 0 "
        "(N_D = 0, N_T = 0) called all_reduce over N_D of float64 [2, 3], each as its collective 1",
    ),
    "kind": (
        lambda: all_reduce(X, "N_T") if rank("N_D") == 0 else all_gather(X, "N_T", -1),
        2,
        "rank 2 (N_D = 1, N_T = 0) called all_gather over N_T of float64 [2, 3] along -1 where "
        "rank 0 (N_D = 0, N_T = 0) called all_reduce over N_T",
    ),
    "shape": (
        lambda: all_reduce(X if rank("N_T") == 0 else X.T, "N_T"),
        1,
        "rank 1 (N_D = 0, N_T = 1) called all_reduce over N_T of float64 [3, 2] where rank 0 "
        "(N_D = 0, N_T = 0) called all_reduce over N_T of float64 [2, 3]",
    ),
    "type": (
        lambda: all_reduce(X.astype(np.float32) if rank("N_T") else X, "N_T"),
        1,
        "of float32 [2, 3] where rank 0",
    ),
    "tensor's axis": (
        lambda: all_gather(np.zeros((2, 2)), "N_T", -1 - rank("N_T")),
        1,
        "along -2 where rank 0 (N_D = 0, N_T = 0) called all_gather over N_T of float64 [2, 2] "
        "along -1",
    ),
    "number": (
        _fewer,
        3,
        "rank 3 (N_D = 1, N_T = 1) ended after 1 collective, while rank 2 (N_D = 1, N_T = 0) "
        "waits in its collective 2, all_reduce over N_T of float64 [2, 3]",
    ),
    "never awaited": (
        lambda: start_all_reduce(X, "N_T") and None,
        0,
        "rank 0 (N_D = 0, N_T = 0) began its collective 1, all_reduce over N_T of float64 "
        "[2, 3], and never awaited it",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_is_told_with_both_ranks(name: str) -> None:
    body, at, message = CASES[name]
    before = threading.active_count()
    with pytest.raises(RankError, match=re.escape(message)) as caught:
        simulate({"N_D": 2, "N_T": 2}, body)
    assert (caught.value.rank, caught.value.exit_code) == (at, 4)
    assert threading.active_count() == before


def test_what_is_sent_is_what_is_expected() -> None:
    def body() -> None:
        if rank("N_T") == 0:
            current().exchange("N_T", [Outgoing(X, 1, "dE")], [])
        else:
            current().exchange("N_T", [], [Incoming(0, "dP")])

    with pytest.raises(RankError, match="rank 0 sends 'dE' where 'dP' is expected"):
        simulate({"N_T": 2}, body)


def test_awaiting_twice_is_told() -> None:
    def body() -> None:
        handle = start_all_reduce(X, "N_T")
        handle.wait()
        handle.wait()

    with pytest.raises(RankError, match="rank 1 awaited its collective 1 twice"):
        simulate({"N_T": 2}, body)


def test_an_exception_ends_all_and_names_its_rank() -> None:
    ended: list[int] = []

    def body() -> None:
        try:
            all_reduce(X, "N_T")
            if rank("N_T") == 1:
                raise NonFiniteError("loss is nan", "loss", 7)
            all_reduce(X, "N_T")
        finally:
            ended.append(rank("N_T"))

    with pytest.raises(RankError, match=r"^rank 1: step 7: loss is nan$") as caught:
        simulate({"N_T": 3}, body)
    assert sorted(ended) == [0, 1, 2], "every rank cleaned up behind itself"
    assert caught.value.facts == {
        "kind": "NonFiniteError",
        "reason": "loss is nan",
        "tensor": "loss",
        "step": 7,
    }
    assert isinstance(caught.value.__cause__, NonFiniteError)


def test_a_bug_is_told_as_one() -> None:
    def body() -> None:
        if rank("N_T") == 1:
            raise ValueError("shapes")
        all_reduce(X, "N_T")

    with pytest.raises(RankError, match="rank 1: internal error: ValueError: shapes") as caught:
        simulate({"N_T": 2}, body)
    assert caught.value.exit_code == 3
    assert any("test_disagreement.py" in line for line in caught.value.details)


def test_cleaning_up_may_not_wait_for_others() -> None:
    def body() -> None:
        try:
            all_reduce(X, "N_T")
            raise ValueError("first")
        finally:
            all_reduce(X, "N_T")

    with pytest.raises(RankError, match="first"):
        simulate({"N_T": 2}, body)


def test_a_rank_that_goes_on_for_ever_is_named() -> None:
    go_on = threading.Event()

    def body() -> None:
        all_reduce(X, "N_T")
        if rank("N_T") == 1:
            go_on.wait()
        all_reduce(X, "N_T")

    began = time.monotonic()
    what = r"rank 1 neither ended nor went on within 0\.2 s after 1 collective"
    with pytest.raises(RankError, match=what):
        simulate({"N_T": 3}, body, timeout=0.2)
    assert time.monotonic() - began < 2
    go_on.set()


def test_runs_are_the_same_every_time() -> None:
    def body() -> float:
        random = np.random.default_rng(rank("N_T"))
        x = random.standard_normal(1000).astype(np.float32)
        for _ in range(20):
            x = all_reduce(x, "N_T") / np.float32(3)
        return float(x.sum())

    first = simulate({"N_T": 5}, body)
    assert len(set(first)) == 1
    assert simulate({"N_T": 5}, body) == first
