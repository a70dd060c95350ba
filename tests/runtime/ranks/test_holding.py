"""Sums over ranks that wait for the last of several backward passes."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from xg_runtime.ranks import current, number, simulate
from xg_runtime.ranks.sums import Sums, holding

Array = NDArray[Any]
PASSES = 3


def term(place: int) -> Array:
    """The term that this rank computes in a pass."""
    return np.full((2, 2), 10.0**place * (number() + 1))


def accumulated() -> tuple[Array, int]:
    held: dict[str, Array] = {}
    total = np.zeros((2, 2))
    for place in range(PASSES):
        with holding(held, is_last=place == PASSES - 1):
            found: Sums[Array] = Sums()
            found.add("N_D", {"W": term(place), f"seen {place}": term(place)})
            found.finish()
        total += found.get("W", np.zeros((2, 2)))
    return total, sum(count.calls for count in current().counters.counts.values())


def test_one_sum_is_sent_for_all_passes() -> None:
    for total, calls in simulate({"N_D": 2}, accumulated):
        assert np.array_equal(total, np.full((2, 2), 333.0))
        assert calls == 1


def test_slices_of_what_is_held_are_sent_once_for_all_passes() -> None:
    def step() -> tuple[Array, Array, list[int]]:
        held: dict[str, Array] = {}
        totals = {"W": np.zeros((1, 2)), "kept": np.zeros((1, 2))}
        counted: list[int] = []
        for place in range(PASSES):
            with holding(held, is_last=place == PASSES - 1):
                found: Sums[Array] = Sums(0, held={"W": None})
                found.scatter("N_D", {"W": (term(place), -2), "kept": (term(place), -2)})
                found.finish()
            counted.append(sum(count.calls for count in current().counters.counts.values()))
            for name in totals:
                totals[name] = totals[name] + found.get(name, np.zeros((1, 2)))
        return totals["W"], totals["kept"], counted

    for total, kept, counted in simulate({"N_D": 2}, step):
        assert np.array_equal(total, np.full((1, 2), 333.0))
        assert np.array_equal(kept, total)
        assert counted == [1, 2, 4]


def test_afterwards_every_pass_sends_its_own() -> None:
    def after() -> float:
        accumulated()
        alone: Sums[Array] = Sums()
        alone.add("N_D", {"W": term(0)})
        alone.finish()
        return float(alone["W"][0, 0])

    assert simulate({"N_D": 2}, after) == [3.0, 3.0]
