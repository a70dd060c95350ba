"""Weights as they are published: one safetensors file, an index of shards, or a folder of these.

    weights = read(path)           weights.tensors by name, weights.config, the config.json beside
    write(folder, tensors, config) what transformers loads, in shards where it is large
    write_params(path, params, settings)    parameters by the diagram's own names

Tensors are views of their files, and are written in pieces: what is neither read nor written needs
no memory.

An index may only name files beside it. No pickle is ever read.
"""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, cast

from xg_runtime import arrays, files, tensorfile
from xg_runtime.checkpoint.manifest import Json
from xg_runtime.errors import CheckpointError, FileError
from xg_runtime.module import Array, Arrays
from xg_runtime.tensorfile import Later, Writable

ONE_FILE: Final = "model.safetensors"
INDEX: Final = "model.safetensors.index.json"
CONFIG: Final = "config.json"
SETTINGS: Final = "xg.settings"  # under this word in the metadata of a file
SHARD_BYTES: Final = 5_000_000_000  # as transformers splits
_PICKLES: Final = (".bin", ".pt", ".pth", ".ckpt")


@dataclass(frozen=True)
class Weights:
    """The tensors of a checkpoint, where they are from, and what goes with them.

    `settings` are those that xg has left in a file; `own_config` is the config of a model that is
    in no file.
    """

    source: str
    tensors: Arrays
    settings: Mapping[str, str | int] = field(default_factory=dict[str, "str | int"])
    own_config: Json | None = None

    @property
    def config(self) -> Json | None:
        """The config.json beside them, read when it is asked for; raises CheckpointError."""
        if self.own_config is not None:
            return self.own_config
        beside = Path(self.source).parent / CONFIG
        return _json(beside) if beside.is_file() else None


def read(path: Path, *, kept: bool = False) -> Weights:
    """Return what `path` holds; raises FileError, and CheckpointError where it is damaged.

    If it is `kept`, a checkpoint in bfloat16 stays in its bits, which `tensorfile.widened` reads.
    """
    place = _in_folder(path) if path.is_dir() else path
    tensors = _shards(place) if place.suffix == ".json" else _one_file(place)
    kinds = {array.dtype for array in tensors.values()}
    if not kept or kinds != {tensorfile.BFLOAT16}:  # of several types the widest counts
        tensors = {name: tensorfile.widen_bfloat16(array) for name, array in tensors.items()}
    settings = _settings(place) if place.suffix == ".safetensors" else {}
    return Weights(str(place), tensors, settings)


def write_params(
    path: Path, params: Writable, settings: Mapping[str, str | int], dtype: str | None = None
) -> None:
    """Write parameters by the diagram's names; a .safetensors file also keeps the settings.

    Floats are written in a type, if one is given; NumPy's files have no bfloat16.
    """
    if path.suffix == ".safetensors":
        notes = {SETTINGS: json.dumps(dict(settings))}
        files.write(path, tensorfile.pieces(params, notes, dtype))
    else:
        types = {name: tensorfile.element_type(array, dtype) for name, array in params.items()}
        if tensorfile.BFLOAT16 in types.values():
            raise FileError(f"cannot write bfloat16 to {path}: name a .safetensors file")
        made = {name: tensorfile.whole(array) for name, array in params.items()}
        arrays.write(path, {n: tensorfile.convert_dtype(a, types[n]) for n, a in made.items()})


def write(
    folder: Path,
    tensors: Writable,
    config: Json,
    *,
    shard_bytes: int = SHARD_BYTES,
    dtype: str | None = None,
) -> list[str]:
    """Write weights and config, all or nothing, and return the names of the files."""
    bytes_of = {
        name: array.size * tensorfile.element_type(array, dtype).itemsize
        for name, array in tensors.items()
    }
    shards = _split_shards(tensors, bytes_of, shard_bytes)
    named = {ONE_FILE: shards[0]}
    contents: dict[str, files.Content] = {CONFIG: _text(config)}
    if len(shards) > 1:
        count = len(shards)
        named = {f"model-{i:05}-of-{count:05}.safetensors": s for i, s in enumerate(shards, 1)}
        where = {name: file for file, shard in named.items() for name in shard}
        index = {
            "metadata": {"total_size": sum(bytes_of.values())},
            "weight_map": dict(sorted(where.items())),
        }
        contents[INDEX] = _text(index)
    # transformers asks for this word, which says how the numbers are laid out
    contents |= {
        name: tensorfile.pieces(shard, {"format": "pt"}, dtype) for name, shard in named.items()
    }
    _check_no_weights(folder, contents)
    files.write_files({folder / name: data for name, data in contents.items()})
    return sorted(contents)


def _in_folder(folder: Path) -> Path:
    """The file of a folder that leads to its weights."""
    for name in (INDEX, ONE_FILE):
        if (folder / name).is_file():
            return folder / name
    with files.file_errors("read"):
        there = sorted(folder.iterdir())
    candidates = [file for file in there if file.suffix == ".safetensors"]
    if len(candidates) == 1:
        return candidates[0]
    pickles = [file.name for file in there if file.suffix in _PICKLES]
    if candidates:
        reason = f"it has {len(candidates)} .safetensors files and no {INDEX}: name one of them"
    elif pickles:
        reason = f"{pickles[0]} is a pickle, which may run code; save the model as safetensors"
    else:
        reason = f"there is no {ONE_FILE} and no {INDEX}"
    raise FileError(f"cannot read weights from {folder}: {reason}")


def _one_file(path: Path) -> Arrays:
    if path.suffix in (".npz", ".npy"):
        return arrays.read(path)
    if path.exists() and path.suffix != ".safetensors":
        raise FileError(
            f"{path}: weights must be a .safetensors file, its index, a folder, or an .npz"
        )
    try:
        with files.file_errors("read"):
            files.refuse_special(path)
            # Windows replaces no file that is mapped.
            is_mapped = os.name == "posix"
            return tensorfile.map_file(path) if is_mapped else tensorfile.unpack(path.read_bytes())
    except ValueError as error:
        raise CheckpointError(f"{path} is damaged: {error}") from error


def _settings(path: Path) -> dict[str, str | int]:
    """The settings that `write_params` has stored in a file."""
    files.refuse_special(path)
    with files.file_errors("read"), path.open("rb") as file:
        length = file.read(8)
        header = length + file.read(int.from_bytes(length, "little"))
    text = tensorfile.metadata(header).get(SETTINGS, "{}")
    try:
        settings: Any = json.loads(text)
    except (ValueError, RecursionError):
        settings = None
    if not isinstance(settings, dict) or not all(
        isinstance(value, str | int) for value in cast("dict[str, object]", settings).values()
    ):
        raise CheckpointError(f"{path} is damaged: its settings make no sense")
    return cast("dict[str, str | int]", settings)


def _shards(index: Path) -> Arrays:
    """The tensors of all shards, each from the file that the index says."""
    where = _weight_map(index)
    tensors: Arrays = {}
    for file in dict.fromkeys(where.values()):
        if not (index.parent / file).is_file():
            raise CheckpointError(f"{index} names {file}, which is not beside it")
        shard = _one_file(index.parent / file)
        lacking = [name for name, at in where.items() if at == file and name not in shard]
        if lacking:
            raise CheckpointError(f"{index} says that {lacking[0]} is in {file}, which lacks it")
        tensors |= {name: array for name, array in shard.items() if where.get(name, file) == file}
    return tensors


def _weight_map(index: Path) -> dict[str, str]:
    table = _json(index).get("weight_map")
    if not isinstance(table, dict) or not table:
        raise CheckpointError(f"{index} is damaged: it has no weight_map")
    pairs = cast("dict[object, object]", table)
    for name, file in pairs.items():
        if not isinstance(file, str) or not _is_shard_name(file):
            raise CheckpointError(
                f"{index} leads to {file} for {name}: a shard is a .safetensors file beside it"
            )
    return cast("dict[str, str]", pairs)


def _is_shard_name(name: str) -> bool:
    """Whether this is the plain name of a shard, on any system."""
    return name.endswith(".safetensors") and not any(sign in name for sign in "/\\:\0")


def _json(path: Path) -> Json:
    try:
        content: Any = json.loads(files.read(path), object_hook=_table)
    except (ValueError, RecursionError) as error:
        raise CheckpointError(f"{path} is damaged: it is no JSON") from error
    if not isinstance(content, dict):
        raise CheckpointError(f"{path} is damaged: it is no table of names")
    return cast(Json, content)


def _table(found: dict[str, object]) -> dict[str, object] | float:
    """A table, or a number that JSON lacks: ``{"__float__": "Infinity"}`` of transformers 5."""
    text = found.get("__float__")
    return float(text) if len(found) == 1 and isinstance(text, str) else found


def _text(value: Mapping[str, object]) -> bytes:
    return (json.dumps(value, ensure_ascii=False, indent=2) + "\n").encode()


def _split_shards(
    tensors: Writable, bytes_of: Mapping[str, int], limit: int
) -> list[dict[str, Array | Later]]:
    """Tensors in order, in as few parts as hold at most `limit` bytes, or one tensor."""
    parts: list[dict[str, Array | Later]] = [{}]
    room = limit
    for name, array in tensors.items():
        if parts[-1] and bytes_of[name] > room:
            parts.append({})
            room = limit
        parts[-1][name] = array
        room -= bytes_of[name]
    return parts


def _check_no_weights(folder: Path, contents: Mapping[str, files.Content]) -> None:
    """Raise FileError where a folder holds weights: who reads it next would mix the two."""
    there = [file.name for file in folder.glob("*")] if folder.is_dir() else []
    held = sorted(name for name in there if name.endswith(".safetensors") or name in contents)
    if held:
        raise FileError(
            f"cannot write weights to {folder}: it has {held[0]} already, so choose another folder"
        )
