"""Gradients summed in buckets are those summed one by one, bit for bit, and take fewer calls."""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

import xg_runtime.ranks as ranks
from xg_runtime.ranks.backend import flat

Array = NDArray[Any]
Arrays = dict[str, Array]
SHAPES = {"W": (3, 4), "b": (4,), "scale": (), "E": (7, 2)}


def terms(rank: int) -> Arrays:
    random = np.random.default_rng(rank)
    return {name: np.asarray(random.standard_normal(shape)) for name, shape in SHAPES.items()}


def test_sums_are_added_to_earlier_ones() -> None:
    def rank() -> Arrays:
        sums: ranks.Sums[NDArray[Any]] = ranks.Sums()
        for _ in range(3):
            sums.add("N", {"W": np.ones(2)})
            sums.finish()
        return sums

    (found, _) = ranks.simulate({"N": 2}, rank)
    assert found["W"].tolist() == [6, 6]


@pytest.mark.parametrize(("bucket", "calls"), [(0, 4), (100, 2), (1 << 20, 1)])
def test_sums_are_the_same_in_any_buckets(bucket: int, calls: int) -> None:
    def rank() -> tuple[Arrays, Arrays, int]:
        mine = terms(ranks.rank("N"))
        alone = {name: ranks.all_reduce(term, "N") for name, term in mine.items()}
        before = sum(count.calls for count in ranks.current().counters.counts.values())
        sums: ranks.Sums[NDArray[Any]] = ranks.Sums(bucket)
        sums["kept"] = np.ones(3)
        for name, term in mine.items():
            sums.add("N", {name: term})
        sums.finish()
        after = sum(count.calls for count in ranks.current().counters.counts.values())
        return alone, sums, after - before

    for alone, sums, count in ranks.simulate({"N": 3}, rank):
        assert count == calls
        assert set(sums) == {"kept", *SHAPES}
        for name, array in alone.items():
            assert sums[name].shape == SHAPES[name]
            np.testing.assert_array_equal(sums[name], array)


@pytest.mark.parametrize("whole", [False, True], ids=["slices", "whole"])
@pytest.mark.parametrize(("halved", "names", "calls"), [(1000, 3, 1), (100, 3, 2), (0, 1, 1)])
def test_the_last_terms_leave_in_two_parts(
    monkeypatch: pytest.MonkeyPatch, halved: int, names: int, calls: int, whole: bool
) -> None:
    monkeypatch.setattr("xg_runtime.ranks.sums.HALVED", halved)
    shapes, axes = {"W": (3, 4), "E": (6, 2), "b": (4,)}, {"W": -1, "E": -2, "b": -1}

    def rank() -> tuple[Arrays, Arrays, int]:
        random = np.random.default_rng(ranks.rank("N"))
        mine = {n: random.standard_normal(shapes[n]) for n in list(shapes)[:names]}
        if whole:
            alone = {n: ranks.all_reduce(term, "N") for n, term in mine.items()}
        else:
            alone = {n: ranks.reduce_scatter(term, "N", axes[n]) for n, term in mine.items()}
        before = sum(count.calls for count in ranks.current().counters.counts.values())
        sums: ranks.Sums[NDArray[Any]] = ranks.Sums()
        if whole:
            sums.add("N", mine)
        else:
            sums.scatter("N", {name: (term, axes[name]) for name, term in mine.items()})
        sums.finish()
        after = sum(count.calls for count in ranks.current().counters.counts.values())
        return alone, sums, after - before

    for alone, sums, count in ranks.simulate({"N": 2}, rank):
        assert count == calls
        assert set(sums) == set(alone)
        for name, array in alone.items():
            np.testing.assert_array_equal(sums[name], array)


def test_the_second_part_is_joined_when_the_first_has_come(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else terms, what they are joined in and copies of that would all be held at once."""
    events: list[str] = []

    class Coming:
        def __init__(self, x: Array) -> None:
            events.append(f"sends {x.size}")
            self.x = x

        def wait(self) -> Array:
            events.append(f"has {self.x.size}")
            return self.x

    monkeypatch.setattr("xg_runtime.ranks.sums.HALVED", 8)

    def start(x: Array, over: str, *, donate: bool) -> Coming:
        assert (over, donate) == ("N", True)
        return Coming(x)

    monkeypatch.setattr("xg_runtime.ranks.sums.start_all_reduce", start)
    sums: ranks.Sums[Array] = ranks.Sums()
    sums.add("N", {"a": np.ones(4), "b": np.ones(3)})
    sums.finish()
    assert events == ["sends 4", "has 4", "sends 3", "has 3"]


def test_types_and_axes_have_buckets_of_their_own() -> None:
    def rank() -> dict[str, torch.Tensor]:
        sums: ranks.Sums[torch.Tensor] = ranks.Sums()
        one, half = torch.ones(2), torch.ones(2, dtype=torch.bfloat16)
        sums.add("N_D", {"a": one, "b": half})
        sums.add("N_T", {"c": one})
        sums.finish()
        return dict(sums)

    for found in ranks.simulate({"N_D": 2, "N_T": 3}, rank):
        assert found["a"].equal(torch.full((2,), 2.0))
        assert found["b"].dtype == torch.bfloat16
        assert found["c"].equal(torch.full((2,), 3.0))


def test_terms_are_let_go_of_when_they_are_sent_and_never_changed() -> None:
    def rank() -> tuple[bool, bool]:
        kept, lost = torch.ones(3), torch.ones(2)
        seen = weakref.ref(lost)
        sums: ranks.Sums[torch.Tensor] = ranks.Sums(bucket=1)
        sums.add("N", {"kept": kept, "lost": lost})
        del lost
        gone = seen() is None
        sums.finish()
        return gone, kept.equal(torch.ones(3)) and sums["kept"].equal(torch.full((3,), 3.0))

    assert ranks.simulate({"N": 3}, rank) == [(True, True)] * 3


@pytest.mark.parametrize("given", [np.ones((2, 3)), torch.ones(2, 3)], ids=["numpy", "torch"])
def test_a_donated_operand_travels_without_a_copy(given: Any) -> None:  # noqa: ANN401
    for copy in (True, False):
        flat(given, "cpu", copy=copy).zero_()
        assert bool((np.asarray(given) == 0).all()) is not copy
