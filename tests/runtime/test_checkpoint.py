import json
import os
from pathlib import Path

import numpy as np
import pytest

from xg_runtime import checkpoint
from xg_runtime.checkpoint import Checkpoint
from xg_runtime.checkpoint.manifest import checksum
from xg_runtime.errors import CheckpointError, FileError


def state(step: int) -> Checkpoint:
    params = {"W": np.full((2, 3), step / 7), "layers.0.b": np.array([step], np.float32)}
    return Checkpoint(step, params, {"m/W": np.arange(6.0).reshape(2, 3)}, {"program": "p"})


def steps(run: Path) -> list[str]:
    return sorted(path.name for path in (run / "checkpoints").iterdir())


def test_a_checkpoint_comes_back_bit_for_bit(tmp_path: Path) -> None:
    folder = checkpoint.save(tmp_path, state(3))
    assert sorted(path.name for path in folder.iterdir()) == [
        "manifest.json",
        "optimizer.safetensors",
        "params.safetensors",
    ]
    found = checkpoint.load(tmp_path)
    assert (found.step, found.facts) == (3, {"program": "p"})
    for held, want in ((found.params, state(3).params), (found.slots, state(3).slots)):
        assert {name: array.tobytes() for name, array in held.items()} == {
            name: array.tobytes() for name, array in want.items()
        }
    found.params["W"] += 1  # training goes on in place


def test_the_same_state_makes_the_same_bytes(tmp_path: Path) -> None:
    one, two = (checkpoint.save(tmp_path / name, state(3)) for name in "ab")
    for path in one.iterdir():
        assert path.read_bytes() == (two / path.name).read_bytes()


def test_the_last_two_are_kept(tmp_path: Path) -> None:
    for step in (1, 20, 300, 99_999_999, 100_000_000):
        checkpoint.save(tmp_path, state(step))
    assert steps(tmp_path) == ["step-100000000", "step-99999999"]
    assert checkpoint.load(tmp_path).step == 100_000_000
    assert checkpoint.load(tmp_path, previous=True).step == 99_999_999


def test_saving_drops_the_course_that_was_abandoned(tmp_path: Path) -> None:
    for step in (200, 400, 300):
        checkpoint.save(tmp_path, state(step))
    assert steps(tmp_path) == ["step-00000200", "step-00000300"]


def test_a_step_may_be_saved_again(tmp_path: Path) -> None:
    folder = checkpoint.save(tmp_path, state(3))
    (folder / "params.safetensors").write_bytes(b"")
    checkpoint.save(tmp_path, state(3))
    assert checkpoint.load(tmp_path).step == 3
    assert steps(tmp_path) == ["step-00000003"]


def test_any_flipped_bit_is_seen(tmp_path: Path) -> None:
    checkpoint.save(tmp_path, state(1))
    folder = checkpoint.save(tmp_path, state(2))
    for path in folder.iterdir():
        whole = path.read_bytes()
        for place in range(0, len(whole), 5):
            flipped = bytearray(whole)
            flipped[place] ^= 1 << place % 8
            if path.suffix == ".json" and flipped.split() == whole.split():
                continue  # white space between the words of JSON
            path.write_bytes(flipped)
            with pytest.raises(CheckpointError, match=r"step-00000002 is damaged: .*previous"):
                checkpoint.load(tmp_path)
        path.write_bytes(whole)
    assert checkpoint.load(tmp_path).step == 2


def test_a_missing_or_cut_file_is_seen(tmp_path: Path) -> None:
    folder = checkpoint.save(tmp_path, state(1))
    for path in list(folder.iterdir()):
        whole = path.read_bytes()
        path.write_bytes(whole[:-1])
        with pytest.raises(CheckpointError, match="damaged"):
            checkpoint.load(tmp_path)
        path.unlink()
        with pytest.raises(CheckpointError, match=f"{path.name} is missing"):
            checkpoint.load(tmp_path)
        path.write_bytes(whole)
    assert checkpoint.load(tmp_path).step == 1


@pytest.mark.parametrize("text", ["[]", "null", "{}", '{"manifest": 1}', "[" * 100_000, "\x00"])
def test_a_hostile_manifest_is_damage(tmp_path: Path, text: str) -> None:
    folder = checkpoint.save(tmp_path, state(1))
    (folder / "manifest.json").write_text(text)
    with pytest.raises(CheckpointError, match=r"manifest\.json"):
        checkpoint.load(tmp_path)


def test_a_file_that_the_manifest_names_elsewhere_is_damage(tmp_path: Path) -> None:
    folder = checkpoint.save(tmp_path, state(1))
    (tmp_path / "secret").write_bytes(b"")
    text = (folder / "manifest.json").read_text()
    (folder / "manifest.json").write_text(text.replace("params.safetensors", "../../../secret"))
    with pytest.raises(CheckpointError, match="has changed"):
        checkpoint.load(tmp_path)


def test_the_previous_is_taken_only_when_asked_for(tmp_path: Path) -> None:
    checkpoint.save(tmp_path, state(1))
    (checkpoint.save(tmp_path, state(2)) / "params.safetensors").write_bytes(b"")
    with pytest.raises(CheckpointError) as caught:
        checkpoint.load(tmp_path)
    assert caught.value.exit_code == 4
    assert checkpoint.load(tmp_path, previous=True).step == 1


def test_an_earlier_one_is_offered_where_there_is_one(tmp_path: Path) -> None:
    for step in (1, 2):
        (checkpoint.save(tmp_path, state(step)) / "params.safetensors").write_bytes(b"")
        with pytest.raises(CheckpointError) as caught:
            checkpoint.load(tmp_path)
        assert ("the previous one can be asked for" in str(caught.value)) == (step == 2)
    with pytest.raises(CheckpointError, match="damaged") as caught:
        checkpoint.load(tmp_path, previous=True)
    assert "the previous one" not in str(caught.value)


def test_regions_are_of_the_newest(tmp_path: Path) -> None:
    for step in (1, 2):
        checkpoint.save(tmp_path, state(step))
    loaded = checkpoint.load_regions(tmp_path, lambda _, layout: layout.whole)
    assert loaded.step == 2


def test_absence_is_said(tmp_path: Path) -> None:
    assert not checkpoint.exists(tmp_path)
    with pytest.raises(CheckpointError, match="holds no checkpoint"):
        checkpoint.load(tmp_path)
    checkpoint.save(tmp_path, state(1))
    assert checkpoint.exists(tmp_path)
    with pytest.raises(CheckpointError, match="holds no earlier checkpoint"):
        checkpoint.load(tmp_path, previous=True)


def test_an_unfinished_checkpoint_is_not_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkpoint.save(tmp_path, state(1))

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(FileError, match="no space left"):
            checkpoint.save(tmp_path, state(2))
    assert steps(tmp_path) == ["step-00000001"]
    checkpoint.save(tmp_path, state(2))
    assert steps(tmp_path) == ["step-00000001", "step-00000002"]


def test_a_manifest_of_another_format_is_refused(tmp_path: Path) -> None:
    folder = checkpoint.save(tmp_path, state(1))
    manifest = json.loads((folder / "manifest.json").read_text())
    del manifest["manifest"]
    manifest["format"] = 3
    sealed = manifest | {"manifest": checksum(manifest)}
    (folder / "manifest.json").write_text(json.dumps(sealed))
    with pytest.raises(CheckpointError, match="has format 3, this xg reads 2"):
        checkpoint.load(tmp_path)
