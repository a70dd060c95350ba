"""Weights in one file, in shards and in folders, whole, damaged and hostile."""

from __future__ import annotations

import json
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from xg_runtime import tensorfile, weights
from xg_runtime.errors import CheckpointError, FileError
from xg_runtime.module import Arrays

TENSORS = {f"h.{i}.w": np.full((i + 1, 5), i + 0.5, np.float32) for i in range(6)}
CONFIG = {"model_type": "tiny", "n": 3}


def same(one: Arrays, other: Arrays) -> bool:
    return one.keys() == other.keys() and all(np.array_equal(one[n], other[n]) for n in one)


def test_one_file_and_its_folder(tmp_path: Path) -> None:
    assert weights.write(tmp_path / "m", TENSORS, CONFIG) == ["config.json", "model.safetensors"]
    for path in (tmp_path / "m", tmp_path / "m" / "model.safetensors"):
        found = weights.read(path)
        assert same(found.tensors, TENSORS)
        assert found.config == CONFIG


def test_the_only_file_of_a_folder_may_have_any_name(tmp_path: Path) -> None:
    weights.write(tmp_path, TENSORS, CONFIG)
    (tmp_path / "model.safetensors").rename(tmp_path / "adapter.safetensors")
    assert same(weights.read(tmp_path).tensors, TENSORS)


def test_parameters_and_the_settings_that_go_with_them(tmp_path: Path) -> None:
    settings = {"N_H": 4, "head": "tied"}
    weights.write_params(tmp_path / "a.safetensors", TENSORS, settings)
    weights.write_params(tmp_path / "a.npz", TENSORS, settings)
    first, second = (weights.read(tmp_path / f"a.{kind}") for kind in ("safetensors", "npz"))
    assert same(first.tensors, TENSORS)
    assert same(second.tensors, TENSORS)
    assert (first.settings, second.settings) == (
        settings,
        {},
    )  # NumPy's files have no room for them


@pytest.mark.parametrize("settings", ["[1]", '{"N_H": [4]}', '{"N_H": 4, "x": null}', "{"])
def test_settings_that_make_no_sense(tmp_path: Path, settings: str) -> None:
    path = tmp_path / "a.safetensors"
    path.write_bytes(tensorfile.pack(TENSORS, {weights.SETTINGS: settings}))
    with pytest.raises(CheckpointError, match=r"a\.safetensors is damaged: its settings make no"):
        weights.read(path)


def test_words_of_a_config_stay_as_they_are(tmp_path: Path) -> None:
    weights.write(tmp_path, TENSORS, {"id2label": {"0": "schön"}})
    assert "schön" in (tmp_path / "config.json").read_text(encoding="utf-8")


def test_shards(tmp_path: Path) -> None:
    """Each holds what fits, and the index leads to all of them."""
    written = weights.write(tmp_path, TENSORS, CONFIG, shard_bytes=120)
    assert written == [
        "config.json",
        *(f"model-0000{i}-of-00004.safetensors" for i in (1, 2, 3, 4)),
        "model.safetensors.index.json",
    ]
    for path in (tmp_path, tmp_path / weights.INDEX):
        assert same(weights.read(path).tensors, TENSORS)
    index = json.loads((tmp_path / weights.INDEX).read_bytes())
    assert index["metadata"]["total_size"] == sum(array.nbytes for array in TENSORS.values())
    assert index["weight_map"].keys() == TENSORS.keys()


@pytest.mark.parametrize("count", [1, 2, 3])
def test_any_number_of_shards_comes_back(tmp_path: Path, count: int) -> None:
    tensors = {name: np.full(4, 1.5, np.float32) for name in "abc"[:count]}
    written = weights.write(tmp_path, tensors, CONFIG, shard_bytes=16)
    assert sum(name.endswith(".safetensors") for name in written) == count
    assert same(weights.read(tmp_path).tensors, tensors)


def test_the_index_says_whose_tensor_counts(tmp_path: Path) -> None:
    """A shard may hold a tensor of a name that the index finds in another."""
    for file, value in (("one", 1.0), ("two", 2.0)):
        arrays = {"x": np.full(2, value, np.float32), file: np.ones(1, np.float32)}
        (tmp_path / f"{file}.safetensors").write_bytes(tensorfile.pack(arrays))
    table = {"x": "one.safetensors", "two": "two.safetensors"}
    (tmp_path / weights.INDEX).write_text(json.dumps({"weight_map": table}), encoding="utf-8")
    assert weights.read(tmp_path).tensors["x"].tolist() == [1.0, 1.0]


def test_bits_are_kept_where_all_tensors_have_the_type_and_it_is_asked(tmp_path: Path) -> None:
    pair = {"a": np.array([1.5, -2], np.float32), "b": np.array([3], np.float32)}
    mixed = pair | {"b": np.array([3], np.int64)}
    for name, tensors in (("all", pair), ("mixed", mixed)):
        weights.write_params(tmp_path / f"{name}.safetensors", tensors, {}, "bfloat16")
    one = weights.read(tmp_path / "all.safetensors", kept=True).tensors
    assert {array.dtype for array in one.values()} == {tensorfile.BFLOAT16}
    for name, kept in (("all", False), ("mixed", True), ("mixed", False)):
        found = weights.read(tmp_path / f"{name}.safetensors", kept=kept).tensors
        assert same(found, pair)
        assert found["a"].dtype == np.float32
    assert weights.read(tmp_path / "all.safetensors").tensors["a"].dtype == np.float32


def test_transformers_reads_the_shards_that_we_write(tmp_path: Path) -> None:
    modeling: Any = import_module("transformers.modeling_utils")
    for name in weights.write(tmp_path, TENSORS, CONFIG, shard_bytes=120):
        if name.endswith(".safetensors"):
            for key, tensor in modeling.load_state_dict(str(tmp_path / name)).items():
                assert np.array_equal(tensor.numpy(), TENSORS[key])


def test_other_files_of_a_folder_do_not_matter(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("notes", encoding="utf-8")
    weights.write(tmp_path, TENSORS, CONFIG)
    assert same(weights.read(tmp_path).tensors, TENSORS)


def test_a_folder_that_holds_weights_is_not_written_to(tmp_path: Path) -> None:
    weights.write(tmp_path, TENSORS, CONFIG)
    before = {file: file.read_bytes() for file in tmp_path.iterdir()}
    with pytest.raises(FileError, match=r"it has config\.json already"):
        weights.write(tmp_path, {"other": np.ones(3)}, CONFIG)
    assert {file: file.read_bytes() for file in tmp_path.iterdir()} == before


@pytest.mark.parametrize(
    "file",
    ["../out.safetensors", "/etc/x.safetensors", "a/b.safetensors", "..\\x.safetensors", "x.bin",
     "C:x.safetensors", "x\0.safetensors", 7, None],
)  # fmt: skip
def test_an_index_leads_nowhere_else(tmp_path: Path, file: object) -> None:
    (tmp_path / "out.safetensors").write_bytes(tensorfile.pack(TENSORS))
    folder = tmp_path / "inside"
    folder.mkdir()
    index = {"weight_map": {"h.0.w": file}}
    (folder / weights.INDEX).write_text(json.dumps(index), encoding="utf-8")
    with pytest.raises(CheckpointError, match=r"a shard is a \.safetensors file beside it"):
        weights.read(folder)


def cut(folder: Path) -> None:
    file = folder / "model-00002-of-00004.safetensors"
    file.write_bytes(file.read_bytes()[:-7])


def longer(folder: Path) -> None:
    file = folder / "model-00002-of-00004.safetensors"
    file.write_bytes(file.read_bytes() + b"12345678")


def header(folder: Path) -> None:
    file = folder / "model-00002-of-00004.safetensors"
    file.write_bytes(b"\xff" * 8 + file.read_bytes()[8:])


def lost(folder: Path) -> None:
    (folder / "model-00002-of-00004.safetensors").unlink()


def elsewhere(folder: Path) -> None:
    index = json.loads((folder / weights.INDEX).read_bytes())
    index["weight_map"]["h.0.w"] = "model-00004-of-00004.safetensors"
    (folder / weights.INDEX).write_text(json.dumps(index), encoding="utf-8")


def no_json(folder: Path) -> None:
    (folder / weights.INDEX).write_text("{", encoding="utf-8")


def no_map(folder: Path) -> None:
    (folder / weights.INDEX).write_text('{"weight_map": [1]}', encoding="utf-8")


def empty_map(folder: Path) -> None:
    (folder / weights.INDEX).write_text('{"weight_map": {}}', encoding="utf-8")


def deep(folder: Path) -> None:
    (folder / weights.CONFIG).write_text("[" * 100_000, encoding="utf-8")


@pytest.mark.parametrize(
    ("harm", "message"),
    [
        (cut, "00002-of-00004.safetensors is damaged"),
        (longer, "00002-of-00004.safetensors is damaged"),
        (header, "00002-of-00004.safetensors is damaged"),
        (lost, "names model-00002-of-00004.safetensors, which is not beside it"),
        (elsewhere, "says that h.0.w is in model-00004-of-00004.safetensors, which lacks it"),
        (no_json, "is no JSON"),
        (no_map, "has no weight_map"),
        (empty_map, "has no weight_map"),
        (deep, "is no JSON"),
    ],
)
def test_damage_is_told(tmp_path: Path, harm: Callable[[Path], None], message: str) -> None:
    weights.write(tmp_path, TENSORS, CONFIG, shard_bytes=120)
    harm(tmp_path)
    with pytest.raises(CheckpointError, match=message):
        assert weights.read(tmp_path).config is None


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ((), "there is no model.safetensors"),
        (("notes.txt",), "there is no model.safetensors"),
        (("pytorch_model.bin",), "pytorch_model.bin is a pickle, which may run code"),
        (("a.safetensors", "b.safetensors"), "it has 2 .safetensors files"),
    ],
)
def test_a_folder_without_weights(tmp_path: Path, files: tuple[str, ...], message: str) -> None:
    for name in files:
        (tmp_path / name).write_bytes(b"")
    with pytest.raises(FileError, match=message):
        weights.read(tmp_path)


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="no such file"):
        weights.read(tmp_path / "gpt2")
    (tmp_path / "w.txt").write_text("")
    with pytest.raises(FileError, match=r"weights must be a \.safetensors file"):
        weights.read(tmp_path / "w.txt")


def test_numbers_that_json_lacks_are_read_from_a_config(tmp_path: Path) -> None:
    """As transformers 5 writes them; a table with anything else in it is one."""
    tables = {"x": {"__float__": "Infinity"}, "y": {"__float__": "1", "z": 2}, "w": {"a": "b"}}
    weights.write(tmp_path, TENSORS, tables)
    config = weights.read(tmp_path).config
    assert config == {**tables, "x": float("inf")}
