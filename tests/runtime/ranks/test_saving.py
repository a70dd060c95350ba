"""Checkpoints of many ranks: complete or absent, and read on any other mesh."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from runtime.ranks.meaning import Array, same
from tier import THOROUGH

from xg_runtime import checkpoint, files
from xg_runtime.checkpoint import Checkpoint, Form, manifest
from xg_runtime.checkpoint.manifest import Cuts, ShardLayout
from xg_runtime.checkpoint.on_ranks import load, save
from xg_runtime.errors import CheckpointError, RankError
from xg_runtime.module import Arrays
from xg_runtime.ranks import current, number, shard_slice, simulate
from xg_runtime.ranks.grid import Grid

FORMS: tuple[Form, ...] = ("safetensors", "dcp")
SHAPES = {"W": (4, 12), "V": (12, 4), "E": (24, 2), "b": (12,), "g": (), "n": (0, 6)}
PLANS: Mapping[str, tuple[dict[str, int], dict[str, Cuts]]] = {
    "one device": ({}, {}),
    "one rank": ({"N_T": 1}, {"W": (("N_T", -1),)}),
    "TP": ({"N_T": 3}, {"W": (("N_T", -1),), "V": (("N_T", -2),), "b": (("N_T", -1),)}),
    "DP": ({"N_D": 2}, {}),
    "DP × TP": (
        {"N_D": 2, "N_T": 2},
        {"W": (("N_T", -1),), "V": (("N_T", -2),), "n": (("N_T", -1),)},
    ),
    "FSDP × TP": (
        {"N_D": 2, "N_T": 3},
        {
            "W": (("N_T", -1), ("N_D", -2)),
            "V": (("N_T", -2), ("N_D", -1)),
            "E": (("N_T", -2), ("N_D", -2)),
            "b": (("N_D", -1), ("N_T", -1)),
        },
    ),
}


def whole(step: int) -> Checkpoint:
    random = np.random.default_rng(step)
    params: Arrays = {n: random.standard_normal(s) for n, s in SHAPES.items()}
    slots: Arrays = {f"m/{n}": random.standard_normal(s) for n, s in SHAPES.items()}
    params["b"] = params["b"].astype(np.float32)
    return Checkpoint(step, params, slots, {"data position": step})


def part(array: Array, cuts: Cuts) -> Array:
    """This rank's part, cut by one axis of the mesh after the other."""
    for mesh_axis, axis in cuts:
        array = shard_slice(array, mesh_axis, axis)
    return array


def ours(step: int, cuts: Mapping[str, Cuts]) -> Checkpoint:
    """This rank's part of the checkpoint of a step."""
    all_of_it = whole(step)
    params = {n: part(a, cuts.get(n, ())) for n, a in all_of_it.params.items()}
    slots = {n: part(a, cuts.get(n[2:], ())) for n, a in all_of_it.slots.items()}
    return Checkpoint(step, params, slots, all_of_it.facts)


def write(run: Path, plan: str, step: int, form: Form = "safetensors") -> list[Path]:
    sizes, cuts = PLANS[plan]
    return simulate(sizes, lambda: save(run, ours(step, cuts), cuts, plan=plan, form=form))


def equal(found: Checkpoint, expected: Checkpoint) -> bool:
    arrays, wanted = found.params | found.slots, expected.params | expected.slots
    return (
        (found.step, found.facts, list(arrays)) == (expected.step, expected.facts, list(wanted))
    ) and all(same(arrays[name], wanted[name]) for name in wanted)


# Each plan is read by each; daily files of either form by turns, of which every plan writes some.
WRITTEN = [
    (plan, other, form)
    for p, plan in enumerate(PLANS)
    for o, other in enumerate(PLANS)
    for f, form in enumerate(FORMS)
    if THOROUGH or (p + o + f) % len(FORMS) == 0
]


@pytest.mark.parametrize(("plan", "other", "form"), WRITTEN)
def test_what_one_mesh_writes_another_reads(
    tmp_path: Path, plan: str, other: str, form: Form
) -> None:
    write(tmp_path, plan, 3, form)
    assert equal(checkpoint.load(tmp_path), whole(3))
    sizes, cuts = PLANS[other]
    found = simulate(sizes, lambda: equal(load(tmp_path, cuts), ours(3, cuts)))
    assert found == [True] * Grid(sizes).count


@pytest.mark.parametrize("form", FORMS)
def test_what_one_device_wrote_many_ranks_read(tmp_path: Path, form: Form) -> None:
    checkpoint.save(tmp_path, whole(5), form)
    sizes, cuts = PLANS["FSDP × TP"]
    assert all(simulate(sizes, lambda: equal(load(tmp_path, cuts), ours(5, cuts))))


def test_every_part_is_written_once_and_the_manifest_says_where(tmp_path: Path) -> None:
    folder, *_ = write(tmp_path, "DP × TP", 1)
    assert sorted(path.name for path in folder.iterdir()) == [
        "manifest.json",
        *(f"{kind}-{rank}.safetensors" for kind in ("optimizer", "params") for rank in (0, 1)),
    ]
    data = json.loads((folder / "manifest.json").read_text())
    assert (data["plan"], data["mesh"]) == ("DP × TP", {"N_D": 2, "N_T": 2})
    assert data["params"]["W"] == {"shape": [4, 12], "cuts": [["N_T", -1]]}
    assert data["slots"]["m/b"] == {"shape": [12]}


def test_one_rank_writes_what_one_device_would(tmp_path: Path) -> None:
    one = checkpoint.save(tmp_path / "one", whole(2))
    two, *_ = write(tmp_path / "two", "one rank", 2)
    for path in one.iterdir():
        if path.name != "manifest.json":
            assert path.read_bytes() == (two / path.name).read_bytes()


def test_the_last_two_are_kept_and_counted_apart(tmp_path: Path) -> None:
    sizes, cuts = PLANS["TP"]

    def body() -> set[str]:
        for step in (1, 2, 3):
            save(tmp_path, ours(step, cuts), cuts)
        return {name for name, _, _ in current().counters.counts}

    assert simulate(sizes, body) == [{"checkpoint"}] * 3
    kept = sorted(path.name for path in (tmp_path / "checkpoints").iterdir())
    assert kept == ["step-00000002", "step-00000003"]
    found = simulate(sizes, lambda: equal(load(tmp_path, cuts, previous=True), ours(2, cuts)))
    assert found == [True] * 3


@pytest.mark.parametrize(
    ("rank", "call", "form"),
    [
        *((rank, call, "safetensors") for rank in (0, 1, 2, 5) for call in (1, 2)),
        *((rank, 1, "dcp") for rank in (0, 1, 2, 5)),
        (0, 3, "safetensors"),
        (0, 2, "dcp"),
        (0, 3, "dcp"),
    ],
    ids=str,
)
def test_a_rank_that_is_lost_leaves_the_older_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rank: int, call: int, form: Form
) -> None:
    """First a rank writes its own files, two of ours or one of torch's; then rank 0 what is last.

    That is the manifest, and in front of it the index of torch's files.
    """
    write(tmp_path, "FSDP × TP", 1)
    calls = [0] * 6
    real = files.write_and_sync

    def failing(path: Path, data: bytes) -> None:
        calls[number()] += 1
        if (number(), calls[number()]) == (rank, call):
            raise OSError(28, "No space left on device", str(path))
        real(path, data)

    with monkeypatch.context() as patch:
        patch.setattr(files, "write_and_sync", failing)
        with pytest.raises(RankError, match=f"rank {rank} .*: cannot write .*: no space") as caught:
            write(tmp_path, "FSDP × TP", 2, form)
    assert caught.value.exit_code == 5
    assert [path.name for path in (tmp_path / "checkpoints").iterdir()] == ["step-00000001"]
    assert equal(checkpoint.load(tmp_path), whole(1))


@pytest.mark.parametrize("form", FORMS)
def test_any_changed_file_is_seen_by_who_reads_it(tmp_path: Path, form: Form) -> None:
    folder, *_ = write(tmp_path, "TP", 1, form)
    sizes, cuts = PLANS["TP"]
    for path in sorted(folder.iterdir()):
        kept = path.read_bytes()
        path.write_bytes(kept[:-1] + bytes([kept[-1] ^ 1]))
        with pytest.raises(CheckpointError, match=f"damaged: {path.name}"):
            checkpoint.load(tmp_path)
        with pytest.raises(RankError, match=f"damaged: {path.name}") as caught:
            simulate(sizes, lambda: load(tmp_path, cuts))
        assert caught.value.exit_code == 4
        path.unlink()
        with pytest.raises(CheckpointError, match=f"{path.name} is missing"):
            checkpoint.load(tmp_path)
        path.write_bytes(kept)
    assert checkpoint.load(tmp_path).step == 1


def test_a_mesh_that_does_not_divide_is_told(tmp_path: Path) -> None:
    write(tmp_path, "TP", 1)
    what = r"cannot resume .* on this mesh: W \[4, 12\] cannot be cut into 5 equal parts"
    with pytest.raises(RankError, match=what):
        simulate({"N_T": 5}, lambda: load(tmp_path, PLANS["TP"][1]))


@pytest.mark.parametrize(
    "change",
    [
        {"mesh": {"N_T": 0}},
        {"mesh": {"N_T": 10**9}},
        {"mesh": 3},
        {"params": {"W": {"shape": [4, 12], "cuts": [["N_X", -1]]}}},
        {"params": {"W": {"shape": [4, 12], "cuts": [["N_T", -3]]}}},
        {"params": {"W": {"shape": [4, 10], "cuts": [["N_T", -1]]}}},
        {"params": {"W": {"shape": [5, 12], "cuts": [["N_T", -1]]}}},
        {"params": {"W": {}}},
        {"params": {"nowhere": {"shape": [1]}}},
        {"files": {}},
    ],
    ids=str,
)
def test_a_manifest_without_sense_is_damage(tmp_path: Path, change: dict[str, object]) -> None:
    folder, *_ = write(tmp_path, "TP", 1)
    path = folder / manifest.NAME
    data = json.loads(path.read_text()) | change
    del data["manifest"]
    path.write_text(json.dumps(data | {"manifest": manifest.checksum(data)}))
    with pytest.raises(CheckpointError, match="is damaged"):
        checkpoint.load(tmp_path)


def test_regions_cover_a_tensor_once() -> None:
    grid = Grid({"N_D": 2, "N_T": 3})
    layout = ShardLayout((12, 4), (("N_T", -2), ("N_D", -2)))
    covered = np.zeros((12, 4))
    order: list[int] = []
    for rank in range(grid.count):
        assert layout.is_written_by(grid, rank)
        rows, columns = layout.region(grid, rank)
        covered[slice(*rows), slice(*columns)] += 1
        order.append(rows[0])
    assert (covered == 1).all()
    assert order == [0, 4, 8, 2, 6, 10], "N_T is outermost: it was named first"
