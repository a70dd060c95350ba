"""Values that the ranks of a training run compute together."""

import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from xg_runtime.errors import RankError
from xg_runtime.optim import global_norm
from xg_runtime.ranks import local_shards, number, simulate
from xg_runtime.ranks.world import RankWorld

MESH = {"N_D": 2, "N_T": 3}
CUTS = {
    "W": ((-1, "N_T"),),
    "V": ((-2, "N_D"), (-1, "N_T")),
    "twice": ((-1, "N_D"), (-1, "N_T")),
    "X": ((-2, "N_D"),),
}
WORLD = RankWorld(CUTS, "DP × TP")
Arrays = dict[str, NDArray[Any]]


def gradients() -> Arrays:
    random = np.random.default_rng(0)
    shapes = {"b": (5,), "W": (4, 6), "V": (4, 6), "twice": (12,)}
    return {name: random.standard_normal(shape) for name, shape in shapes.items()}


def test_the_norm_counts_every_number_once() -> None:
    whole = gradients()
    found = simulate(MESH, lambda: WORLD.squares(local_shards(whole, CUTS)))
    assert len(set(found)) == 1
    assert math.sqrt(found[0]) == pytest.approx(global_norm(whole), rel=1e-14)


def test_what_one_rank_alone_holds_broken_is_seen_by_all() -> None:
    def squares() -> float:
        ours = local_shards(gradients(), CUTS)
        if number() == 5:  # it counts for nothing: "b" is whole everywhere
            ours["b"] = np.array([np.nan])
        return WORLD.squares(ours)

    assert all(math.isnan(each) for each in simulate(MESH, squares))


def test_the_first_name_and_the_largest_number_are_those_of_all() -> None:
    said = {1: (7, "layers.1.Z"), 4: (2, "layers.0.Y")}
    assert set(simulate(MESH, lambda: WORLD.first(*said.get(number(), (0, ""))))) == {"layers.0.Y"}
    assert set(simulate(MESH, lambda: WORLD.first(0, ""))) == {""}
    assert set(simulate(MESH, lambda: WORLD.max_over_ranks(15 if number() == 3 else 0))) == {15}
    assert simulate(MESH, lambda: WORLD.leads) == [True, False, False, False, False, False]


def test_a_batch_that_ranks_cannot_share() -> None:
    what = r"a batch of X \[3, 2\]: axis -2 of \[3, 2\] cannot be cut into N_D = 2 equal parts"
    with pytest.raises(RankError, match=what) as caught:
        simulate(MESH, lambda: WORLD.part({"X": np.zeros((3, 2))}))
    assert caught.value.exit_code == 1
