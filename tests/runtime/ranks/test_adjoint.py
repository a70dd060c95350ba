"""Transposes: for a linear collective f and its transpose g, <f x, y> = <x, g y> over all ranks.

The meaning of a state decides which ranks a pairing counts: these are the rows of the table of
transposes in the design of sharding. Each has a wrong twin, which the test must find.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce

import numpy as np
import pytest
from runtime.ranks.meaning import Array

from xg_runtime.ranks import (
    all_gather,
    all_reduce,
    all_to_all,
    number,
    pad_from_shard,
    reduce_scatter,
    shard_slice,
    shift,
    simulate,
    size,
)

MESHES = [{"N_T": 2}, {"N_T": 3}, {"N_D": 2, "N_T": 3}]
Local = Callable[[Array], Array]

# name: f, its transpose
PAIRS: dict[str, tuple[Local, Local]] = {
    "AR is its own": (lambda x: all_reduce(x, "N_T"), lambda y: all_reduce(y, "N_T")),
    "RS of AG": (lambda x: all_gather(x, "N_T", -1), lambda y: reduce_scatter(y, "N_T", -1)),
    "AG of RS": (lambda x: reduce_scatter(x, "N_T", -2), lambda y: all_gather(y, "N_T", -2)),
    "A2A back": (
        lambda x: all_to_all(x, "N_T", -1, -2),
        lambda y: all_to_all(y, "N_T", -2, -1),
    ),
    "shifts of a shift": (
        lambda x: shift(x, "N_T"),
        lambda y: reduce(lambda z, _: shift(z, "N_T"), range(size("N_T") - 1), y),
    ),
    "pad of slice": (lambda x: shard_slice(x, "N_T", -1), lambda y: pad_from_shard(y, "N_T", -1)),
    "slice of pad": (lambda x: pad_from_shard(x, "N_T", -2), lambda y: shard_slice(y, "N_T", -2)),
}

WRONG: dict[str, tuple[Local, Local]] = {
    "AR is not the identity": (lambda x: all_reduce(x, "N_T"), lambda y: y),
    "AG without a sum": (lambda x: all_gather(x, "N_T", -1), lambda y: shard_slice(y, "N_T", -1)),
    "RS of the wrong axis": (
        lambda x: reduce_scatter(x, "N_T", -2),
        lambda y: np.swapaxes(all_gather(np.swapaxes(y, -1, -2), "N_T", -1), -1, -2)[..., ::-1, :],
    ),
    "shift is not the identity": (lambda x: shift(x, "N_T"), lambda y: y),
    "A2A once more": (
        lambda x: all_to_all(x, "N_T", -1, -2),
        lambda y: all_to_all(y, "N_T", -2, -1)[..., ::-1],
    ),
}


def pairings(sizes: dict[str, int], f: Local, transpose: Local) -> tuple[float, float]:
    """<f x, y> and <x, transpose y>, summed over the ranks."""

    def body() -> tuple[float, float]:
        random = np.random.default_rng(number())
        x = random.standard_normal((12, 12))
        image = f(x)
        y = random.standard_normal(image.shape)
        return float(np.vdot(image, y)), float(np.vdot(x, transpose(y)))

    one, two = zip(*simulate(sizes, body), strict=True)
    return sum(one), sum(two)


@pytest.mark.parametrize("sizes", MESHES, ids=str)
@pytest.mark.parametrize("name", PAIRS)
def test_transposes(name: str, sizes: dict[str, int]) -> None:
    one, two = pairings(sizes, *PAIRS[name])
    assert one == pytest.approx(two, rel=1e-12)


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_transpose_is_seen(name: str) -> None:
    one, two = pairings({"N_T": 3}, *WRONG[name])
    assert one != pytest.approx(two, rel=1e-3)


@pytest.mark.parametrize("sizes", MESHES, ids=str)
def test_the_cast_and_the_all_reduce(sizes: dict[str, int]) -> None:
    """A value computed once (I, one copy counts) that ranks use for their own (R): AR backwards."""

    def body() -> tuple[float, float]:
        shared, mine = np.random.default_rng(7), np.random.default_rng(number())
        x = shared.standard_normal(5)
        y = mine.standard_normal(5)
        whole = all_reduce(y, "N_T")
        return float(x @ y), float(x @ whole)

    ranks = sizes["N_T"]
    found = simulate(sizes, body)
    for group in range(len(found) // ranks):
        members = found[group * ranks : (group + 1) * ranks]
        cast = sum(local for local, _ in members)  # over ranks: <cast x, y>
        assert [whole for _, whole in members] == [members[0][1]] * ranks  # one copy: <x, AR y>
        assert cast == pytest.approx(members[0][1], rel=1e-12)
