"""Arrays that ranks do not divide: zeros fill their shards, and what is written has none."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from xg_runtime import checkpoint
from xg_runtime.checkpoint import Checkpoint, Form
from xg_runtime.errors import CheckpointError, RankError
from xg_runtime.module import Arrays
from xg_runtime.ranks import gather_shards, global_shape, local_shards, number, simulate
from xg_runtime.ranks.parts import Cuts
from xg_runtime.ranks.world import RankWorld

WHOLE = {
    "E": np.arange(1.0, 15.0).reshape(7, 2),
    "W": np.arange(1.0, 22.0).reshape(3, 7),
    "b": np.ones(4),
}
OVER_3: Mapping[str, Cuts] = {"E": ((-2, "N_T", 7),), "W": ((-1, "N_T", 7),)}
OVER_4: Mapping[str, Cuts] = {
    "E": ((-2, "N_G", 7), (-2, "N_T")),
    "W": ((-1, "N_G", 7), (-1, "N_T")),
    "b": ((-1, "N_T"),),
}
MESHES = [({"N_T": 3}, OVER_3), ({"N_T": 2}, OVER_3), ({"N_G": 2, "N_T": 2}, OVER_4)]
FORMS: tuple[Form, ...] = ("safetensors", "dcp")


@pytest.mark.parametrize(("mesh", "cuts"), MESHES)
def test_shards_are_filled_and_put_together(mesh: dict[str, int], cuts: dict[str, Cuts]) -> None:
    def rank() -> tuple[Arrays, Arrays, tuple[int, ...]]:
        parts = local_shards(WHOLE, cuts)
        return parts, gather_shards(parts, cuts), global_shape(parts["E"].shape, cuts["E"])

    together = simulate(mesh, rank)
    for _, whole, shape in together:
        assert shape == (7, 2)
        assert all(np.array_equal(whole[name], array) for name, array in WHOLE.items())
    rows = [part["E"] for part, _, _ in together]
    count = len(rows)
    width = -(-7 // count)
    assert [len(each) for each in rows] == [width] * count
    assert not np.concatenate(rows)[7:].any()


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("mesh", "cuts"), MESHES)
def test_checkpoints_have_no_padding(
    tmp_path: Path, form: Form, mesh: dict[str, int], cuts: dict[str, Cuts]
) -> None:
    """Those of any mesh are read on any other, and on one device."""
    slots = {f"m/{name}": array / 8 for name, array in WHOLE.items()}

    def save() -> None:
        world = RankWorld(cuts, "VP")
        params = dict(world.part(WHOLE))
        moments = {f"m/{name}": array / 8 for name, array in params.items()}
        world.save(tmp_path, Checkpoint(2, params, moments, {}), form)

    simulate(mesh, save)
    alone = checkpoint.load(tmp_path)
    assert all(np.array_equal(alone.params[name], array) for name, array in WHOLE.items())
    assert all(np.array_equal(alone.slots[name], array) for name, array in slots.items())
    for other, held in MESHES:

        def load(held: Mapping[str, Cuts] = held) -> bool:
            world = RankWorld(held, "VP")
            found, expected = world.load(tmp_path, previous=False), world.part(WHOLE)
            return all(
                np.array_equal(found.params[name], array)
                and np.array_equal(found.slots[f"m/{name}"], array / 8)
                for name, array in expected.items()
            )

        assert all(simulate(other, load))


def test_what_is_not_padded_has_to_divide_as_before(tmp_path: Path) -> None:
    cut: dict[str, Cuts] = {"E": ((-2, "N_T"),)}
    checkpoint.save(tmp_path, Checkpoint(1, WHOLE, {}, {}))
    with pytest.raises(RankError) as caught:
        simulate({"N_T": 3}, lambda: RankWorld(cut, "").load(tmp_path, previous=False))
    assert isinstance(caught.value.__cause__, CheckpointError)
    with pytest.raises(RankError, match="cannot be cut into N_T = 3 equal parts"):
        simulate({"N_T": 3}, lambda: local_shards(WHOLE, cut))


def test_a_rank_knows_its_number_of_true_rows() -> None:
    rows = simulate({"N_T": 3}, lambda: (number(), local_shards(WHOLE, OVER_3)["E"].any(1).sum()))
    assert rows == [(0, 3), (1, 3), (2, 1)]
