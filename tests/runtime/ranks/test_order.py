"""Ranks in zigzag: each has two chunks of an axis, one from each end."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from xg.codegen.numpy import support
from xg.codegen.torch import support as torch_support
from xg.verify.rank_comparison import furthest, window
from xg.verify.rank_comparison import gather_shards as gathered
from xg.verify.reference.evaluate import part_of, whole_of
from xg_runtime.errors import InputError, RankError
from xg_runtime.ranks import (
    all_gather,
    all_to_all,
    gather_shard,
    local_shard,
    mesh_places,
    owns_index,
    pad_from_shard,
    rank,
    reduce_scatter,
    shard_slice,
    simulate,
    to_local_index,
)

MESH = {"N_D": 2, "N_S": 3}
Z = "N_S zigzag"
LIBRARIES = ["numpy", "torch"]


def made(library: str, *shape: int) -> Any:  # noqa: ANN401 - of either library
    whole = np.random.default_rng(0).standard_normal(shape)
    return torch.tensor(whole) if library == "torch" else whole


def same(a: Any, b: Any) -> bool:  # noqa: ANN401 - of either library
    return np.array_equal(np.asarray(a), np.asarray(b))


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_rank_has_a_chunk_from_each_end(library: str) -> None:
    whole = made(library, 12, 2)

    def body() -> bool:
        place = rank("N_S")
        chunks = [whole[2 * place : 2 * place + 2], whole[10 - 2 * place : 12 - 2 * place]]
        return same(shard_slice(whole, Z, -2), np.concatenate([np.asarray(c) for c in chunks]))

    assert simulate(MESH, body) == [True] * 6


@pytest.mark.parametrize("library", LIBRARIES)
def test_what_is_cut_is_joined_again(library: str) -> None:
    """All of it by a gather, by a sum of terms, and by an exchange and a gather."""
    whole = made(library, 12, 6)

    def body() -> list[bool]:
        mine = shard_slice(whole, Z, -2)
        columns = all_to_all(mine, Z, -1, -2)
        terms = reduce_scatter(pad_from_shard(mine, Z, -2), Z, -2)
        nested = local_shard(whole, ((-2, Z), (-2, "N_D")))
        return [
            same(all_gather(mine, Z, -2), whole),
            same(terms, mine),
            same(columns, shard_slice(whole, Z, -1)),
            same(all_to_all(columns, Z, -2, -1), mine),
            same(gather_shard(nested, ((-2, Z), (-2, "N_D"))), whole),
        ]

    assert simulate(MESH, body) == [[True] * 5] * 6


@pytest.mark.parametrize("library", LIBRARIES)
def test_ids_are_found_among_the_rows_of_a_rank(library: str) -> None:
    table = made(library, 12)
    ids = torch.arange(12) if library == "torch" else np.arange(12)

    def body() -> Any:  # noqa: ANN401 - of either library
        mine = shard_slice(table, Z, -1)
        held, inside = owns_index(ids, Z, 4), to_local_index(ids, Z, 4)
        assert int(held.sum()) == 4
        assert same(mine[inside[held]], table[held])
        return np.asarray(held)

    assert np.all(np.sum(simulate({"N_S": 3}, body), 0) == 1)


def test_a_mask_is_a_part_of_that_of_one_device() -> None:
    """Also where another mesh axis cuts the same axis, outside and inside."""
    whole = support.keep_mask(np.zeros((12, 24)), 0.5, 7, "at")
    assert whole is not None
    for cuts in [((-1, Z),), ((-1, "N_D"), (-1, Z)), ((-1, Z), (-2, "N_D"))]:

        def body(cuts: tuple[tuple[int, str], ...] = cuts) -> bool:
            mine = local_shard(whole, cuts)
            places = mesh_places(*cuts)
            ours = support.keep_part(mine, 0.5, 7, "at", places)
            theirs = torch_support.keep_part(torch.zeros(mine.shape), 0.5, 7, "at", places)
            return same(ours, mine) and same(theirs, mine)

        assert simulate(MESH, body) == [True] * 6


def test_the_reference_has_the_same_parts() -> None:
    """Parts, the whole of them, and the places of a rank in the whole, by other code."""
    whole = np.random.default_rng(0).standard_normal((24, 6))
    for cuts in [((-2, Z),), ((-2, "N_D"), (-2, Z)), ((-2, Z), (-2, "N_D"))]:
        parts = simulate(MESH, lambda cuts=cuts: local_shard(whole, cuts))
        assert gathered(parts, cuts, MESH).unlike is None
        assert same(gathered(parts, cuts, MESH).array, whole)
        wrong = [*parts[:4], parts[4] + 1, parts[5]]
        assert furthest(wrong, whole, cuts, MESH) == 4
        at = {"N_D": 1, "N_S": 1}
        assert same(whole[window(parts[4].shape, cuts, at, MESH)], parts[4])
    parts = [part_of(whole, place, 3, Z, 0) for place in range(3)]
    assert same(whole_of(parts, Z, 0), whole)
    assert same(parts[1], simulate({"N_S": 3}, lambda: shard_slice(whole, Z, 0))[1])


def test_chunks_have_to_be_equal() -> None:
    with pytest.raises(RankError, match=r"cut into N_S zigzag, 2 \* 3, equal parts") as refused:
        simulate({"N_S": 3}, lambda: shard_slice(np.zeros(9), Z, -1))
    assert isinstance(refused.value.__cause__, InputError)
