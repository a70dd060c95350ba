"""Parameters gathered in bundles: the numbers of each by itself, a layer ahead of time."""

from __future__ import annotations

import warnings
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from bench.memory import alone
from bench.turns import torch_peak
from numpy.typing import NDArray

from xg_runtime.held import Held
from xg_runtime.ranks import Gathered, Sums, all_gather, current, number, reduce_scatter, simulate
from xg_runtime.ranks.collectives import start_all_gather
from xg_runtime.ranks.gathered import layer_of

GATHERS = {
    "E": ("N_D", -2),
    **{f"layers.{i}.W": ("N_D", -1) for i in range(3)},
    **{f"layers.{i}.attn.b": ("N_D", -1) for i in range(3)},
}


def shards() -> dict[str, NDArray[Any]]:
    draw = np.random.default_rng(number())
    shapes = {name: (2, 3) if name == "E" else (4, 1) for name in GATHERS}
    found: dict[str, NDArray[Any]] = {n: draw.standard_normal(s) for n, s in shapes.items()}
    return {**found, "c": np.ones(2)}


def test_a_layer_is_gathered_at_once_and_the_next_one_ahead() -> None:
    def step(last_first: bool) -> list[int]:
        mine = shards()
        params = Gathered(mine, GATHERS, last_first=last_first)
        counted: list[int] = []
        layers = [f"layers.{i}" for i in range(3)]
        names = ["E", *(f"{each}.{n}" for each in layers for n in ("W", "attn.b"))]
        if last_first:
            names = ["E", *names[:0:-1], "E"]
        for name in names:
            whole = params.whole(name)
            calls = [count.calls for count in current().counters.counts.values()]
            counted.append(sum(calls))
            np.testing.assert_array_equal(whole, all_gather(mine[name], *GATHERS[name]))
            current().counters.clear()
        assert np.array_equal(params["c"], np.ones(2))
        return counted

    # The first read begins its own bundle and the next one; the last layer begins nothing.
    forward, backward = ([2, 1, 0, 1, 0, 0, 0], [2, 1, 0, 1, 0, 0, 0, 0])
    for ranks in (2, 3):
        assert simulate({"N_D": ranks}, lambda: step(last_first=False)) == [forward] * ranks
        assert simulate({"N_D": ranks}, lambda: step(last_first=True)) == [backward] * ranks


def test_a_backward_pass_begins_its_second_layer_in_the_middle_of_the_first() -> None:
    """By then what the first has saved is half freed; later layers are begun a whole one ahead."""
    names = [f"layers.{i}.W{j}" for i in (2, 1, 0) for j in range(4)]
    gathers = dict.fromkeys(sorted(names), ("N_D", -1))

    def step(last_first: bool) -> list[int]:
        mine: dict[str, NDArray[Any]] = {name: np.ones((2, 1)) for name in gathers}
        params = Gathered(mine, gathers, last_first=last_first)
        counted = [0]
        for name in names if last_first else sorted(names):
            params.whole(name)
            counted.append(sent())
        return [after - before for before, after in pairwise(counted)]

    assert simulate({"N_D": 2}, lambda: step(last_first=False))[0] == [2, *[0] * 3, 1, *[0] * 7]
    assert simulate({"N_D": 2}, lambda: step(last_first=True))[0] == [1, 1, *[0] * 2, 1, *[0] * 7]


def test_what_is_gathered_is_one_buffer() -> None:
    """A rank's own part is written to its place in the result, and nowhere else."""
    with alone({"N_D": 4}):
        x = torch.ones(2**16)
        peak = torch_peak(lambda: start_all_gather(x, "N_D", -1)._pending)  # pyright: ignore[reportPrivateUsage]
        turned = torch.arange(6.0).reshape(2, 3).T
        own = all_gather(turned, "N_D", -1)[:, :2]  # the other ranks send nothing
        fixed = np.arange(3)
        fixed.flags.writeable = False
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert all_gather(fixed, "N_D", -1)[:3].tolist() == [0, 1, 2]
    assert 4 * x.nbytes <= peak < 4.5 * x.nbytes
    assert torch.equal(own, turned)


def sent() -> int:
    """The collectives that this rank has begun."""
    return sum(count.calls for count in current().counters.counts.values())


def test_a_layer_that_was_read_is_not_begun_again() -> None:
    """The last stage of a pipeline reads its layers first, and then what is outside of them."""

    def step() -> int:
        params = Gathered(shards(), GATHERS)
        for name in (*sorted(GATHERS)[1:], "E"):
            params.whole(name)
        return sent()

    assert simulate({"N_D": 2}, step) == [4, 4]


def test_what_is_held_is_gathered_once_for_all_passes() -> None:
    """A pass over other shards gathers them again; what is not held is gathered in each."""
    held = {name: None for name in GATHERS if name != "E"}

    def step() -> list[int]:
        mine = shards()
        counted: list[int] = []
        params = Held(mine)
        for shards_ in (params, params, Held(dict(mine), params.wholes), Held(mine), mine):
            found = Gathered(shards_, GATHERS, held=held)
            before = sent()
            for name in sorted(GATHERS):
                whole = found.whole(name)
                assert found.whole(name) is whole
            counted.append(sent() - before)
            for name, where in GATHERS.items():
                np.testing.assert_array_equal(found.whole(name), all_gather(mine[name], *where))
        return counted

    assert simulate({"N_D": 2}, step) == [[4, 1, 1, 4, 4]] * 2


def test_layers_are_rounds_of_rows() -> None:
    names = ("E", "bert.E", "layers.3.attn.W", "encoder.layers.0.W", "a.0.b.1.W")
    assert [layer_of(name) for name in names] == ["", "", "layers.3", "encoder.layers.0", "a.0"]


def test_slices_of_sums_are_those_of_every_term_by_itself() -> None:
    def step(bucket: int) -> int:
        draw = np.random.default_rng(number())
        terms = {"W": (draw.standard_normal((6, 4)), -2), "b": (draw.standard_normal(12), -1)}
        expected = {n: reduce_scatter(t, "N_D", axis) for n, (t, axis) in terms.items()}
        current().counters.clear()
        sums: Sums[NDArray[Any]] = Sums(bucket)
        sums.scatter("N_D", terms)
        sums.finish()
        for name, slice_ in expected.items():
            np.testing.assert_array_equal(sums[name], slice_)
        return sum(count.calls for count in current().counters.counts.values())

    for ranks in (2, 3):
        assert simulate({"N_D": ranks}, lambda: step(2**20)) == [1] * ranks
        assert simulate({"N_D": ranks}, lambda: step(1)) == [2] * ranks
