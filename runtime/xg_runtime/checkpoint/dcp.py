"""Checkpoints in the format of torch.distributed.checkpoint (DCP), written without its collectives.

A rank writes its parts one after the other into one file, each as `torch.save` does; rank 0 then
writes the index, which says where each part of each tensor is. So simulated ranks and one device
write what processes write, in the two phases of all our checkpoints.

`dcp.save` needs a process group, which simulated ranks and one device lack, and publishes without
hashes. The index is a pickle, so only the classes of an index are built, and parts load with
`weights_only`.
"""

from __future__ import annotations

import io
import json
import math
import pickle
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from torch.distributed.checkpoint.filesystem import (
    _StorageInfo,  # pyright: ignore[reportPrivateUsage] - the only name of it
)
from torch.distributed.checkpoint.metadata import (
    BytesStorageMetadata,
    ChunkStorageMetadata,
    Metadata,
    MetadataIndex,
    TensorProperties,
    TensorStorageMetadata,
)

from xg_runtime import files
from xg_runtime.checkpoint.manifest import (
    INDEX,
    NAME,
    Checkpoint,
    Json,
    Layouts,
    Manifest,
    Region,
    ShardLayout,
    Storage,
    overlap,
    sha256,
    widths,
)
from xg_runtime.checkpoint.part_files import checked, paste
from xg_runtime.module import Array, Arrays
from xg_runtime.optim import Adam, Schedule
from xg_runtime.ranks.grid import Grid

# The names that the state of a run has in a checkpoint of torch.
#
#     model.W                              a parameter
#     optimizer.state.W.exp_avg            a slot, here m/W of Adam
#     optimizer.param_groups.0.lr          the options of torch's optimizer, as in its own state
#     train.step, train.facts              the steps done; the facts of the run, as JSON
#     manifest                             the name of our manifest, which then has to be there
#
# They are what `{"model": …, "optimizer": …, "train": …}` becomes of torch's `get_state_dict`.


Keys = tuple[str | int, ...]  # of keys, through dictionaries and lists

STEP, FACTS, MANIFEST = "train.step", "train.facts", "manifest"
SLOTS: Final = {"m": "exp_avg", "v": "exp_avg_sq", "velocity": "momentum_buffer"}
_OURS: Final = {theirs: ours for ours, theirs in SLOTS.items()}


def path_of(name: str) -> Keys:
    """Return where the parameter or slot of a name is.

    >>> path_of("layers.0.W"), path_of("m/W")
    (('model', 'layers.0.W'), ('optimizer', 'state', 'W', 'exp_avg'))
    """
    kind, is_slot, param = name.partition("/")
    return ("optimizer", "state", param, SLOTS[kind]) if is_slot else ("model", name)


def name_of(key: str) -> str | None:
    """Return the parameter or slot of a key; None for everything else.

    >>> name_of("model.layers.0.W"), name_of("optimizer.state.W.exp_avg"), name_of("train.step")
    ('layers.0.W', 'm/W', None)
    """
    part, _, rest = key.partition(".")
    if part == "model":
        return rest
    param, _, kind = rest.removeprefix("state.").rpartition(".")
    is_slot = part == "optimizer" and rest.startswith("state.") and kind in _OURS
    return f"{_OURS[kind]}/{param}" if is_slot else None


def key_of(path: Keys) -> str:
    """Return the key of a path."""
    return ".".join(map(str, path))


def values(
    state: Checkpoint, params: Mapping[str, ShardLayout], slots: Mapping[str, ShardLayout]
) -> Iterator[tuple[Keys, object]]:
    """Yield all that is no part of a tensor, by its path: it is whole, and the same on all ranks.

    `params` and `slots` are those of all ranks.
    """
    yield ("train", "step"), state.step
    yield ("train", "facts"), json.dumps(state.facts)
    yield (MANIFEST,), NAME
    learned = [name.partition("/")[2] for name in slots]
    for name in dict.fromkeys(learned):
        if f"m/{name}" in slots:
            step = torch.tensor(float(state.step), dtype=torch.float32)  # as torch counts
            yield ("optimizer", "state", name, "step"), step
    shapes = {name: params[name].shape for name in dict.fromkeys(learned or params)}
    for number, group in enumerate(_groups(state, shapes)):
        for option, value in group.items():
            yield ("optimizer", "param_groups", number, option), value


def _groups(state: Checkpoint, shapes: Mapping[str, Sequence[int]]) -> Iterator[Json]:
    """The groups of torch's optimizer: matrices, which decay, and the rest, or all parameters."""
    options = state.facts.get("options")
    if not options:  # nothing says how it was trained
        return
    if not (options["optimizer"] == "adamw" and options["weight_decay"]):
        yield _group(options, state.step, list(shapes), 0.0)
        return
    for decays in (True, False):
        names = [name for name, shape in shapes.items() if (len(shape) >= 2) == decays]
        if names:
            decay = options["weight_decay"] if decays else 0.0
            yield _group(options, state.step, names, decay)


def _group(options: Json, step: int, names: list[str], decay: float) -> Json:
    """A group of torch's optimizer, with the rate of the next step."""
    kind, peak, steps = options["schedule"], options["rate"], options.get("steps", 0)
    rate = Schedule(kind, peak, steps, options["warmup"], options["final"]).rate(step)
    whole = [torch.zeros(0)]
    if options["optimizer"] == "sgd":
        optimizer: Any = torch.optim.SGD(whole, rate, options["momentum"])
    else:
        kind = torch.optim.AdamW if options["optimizer"] == "adamw" else torch.optim.Adam
        optimizer = kind(whole, rate, (Adam.beta1, Adam.beta2), Adam.epsilon, decay)
    (group,) = optimizer.state_dict()["param_groups"]
    return group | {"params": names}


# pyright: reportUnknownMemberType=false


class _Dcp:
    """The writer of torch's format."""

    def write(
        self,
        folder: Path,
        part: Checkpoint,
        params: Layouts,
        slots: Layouts,
        grid: Grid,
        rank: int,
    ) -> Json:
        name, data = f"__{rank}_0.distcp", io.BytesIO()
        entries: list[Json] = []
        pieces = [
            *_pieces(part.params, params, grid, rank),
            *_pieces(part.slots, slots, grid, rank),
        ]
        if rank == 0:
            pieces += [(keys, value, None) for keys, value in values(part, params, slots)]
        for keys, value, start in pieces:
            first = data.tell()
            torch.save(value, data)
            entry: Json = {"keys": keys, "file": name, "place": [first, data.tell() - first]}
            if isinstance(value, torch.Tensor):
                dtype = str(value.dtype).removeprefix("torch.")
                at = start or [0] * value.ndim
                entry |= {"at": at, "shape": list(value.shape), "dtype": dtype}
            entries.append(entry)
        if not entries:
            return {"files": {}, "entries": []}
        files.write_and_sync(folder / name, data.getvalue())
        return {"files": {name: sha256(data.getvalue())}, "entries": entries}

    def finish(
        self,
        folder: Path,
        part: Checkpoint,
        params: Layouts,
        slots: Layouts,
        said: Sequence[Json],
    ) -> dict[str, str]:
        del part
        shapes = {key_of(path_of(name)): lay.shape for name, lay in {**params, **slots}.items()}
        index = pickle.dumps(_index([e for each in said for e in each["entries"]], shapes))
        files.write_and_sync(folder / INDEX, index)
        hashes = {name: sha256 for each in said for name, sha256 in each["files"].items()}
        return hashes | {INDEX: sha256(index)}


DCP: Final[Storage] = _Dcp()


def _pieces(
    arrays: Arrays, layouts: Mapping[str, ShardLayout], grid: Grid, rank: int
) -> Iterator[tuple[Keys, object, list[int] | None]]:
    """The parts that a rank writes: where each belongs, and where in its whole tensor it begins."""
    for name, array in arrays.items():
        if layouts[name].is_written_by(grid, rank):
            region = layouts[name].region(grid, rank)
            assert widths(region) == array.shape
            tensor = torch.from_numpy(np.ascontiguousarray(array)).reshape(array.shape)
            yield path_of(name), tensor.clone(), [first for first, _ in region]


def _index(entries: Sequence[Json], shapes: Mapping[str, Sequence[int]]) -> Metadata:
    """The index of all files."""
    tensors: dict[str, Any] = {}
    places: dict[MetadataIndex, _StorageInfo] = {}
    paths: dict[str, Keys] = {}
    for entry in entries:
        keys = tuple(entry["keys"])
        key = key_of(keys)
        paths[key] = keys
        info = _StorageInfo(entry["file"], *entry["place"])
        if "at" not in entry:
            tensors[key] = BytesStorageMetadata()
            places[MetadataIndex(key)] = info
            continue
        at, shape = torch.Size(entry["at"]), torch.Size(entry["shape"])
        properties = TensorProperties(dtype=getattr(torch, entry["dtype"]))
        whole = torch.Size(shapes.get(key, shape))
        held = tensors.setdefault(key, TensorStorageMetadata(properties, whole, []))
        places[MetadataIndex(key, at, len(held.chunks))] = info
        held.chunks.append(ChunkStorageMetadata(at, shape))
    return Metadata(tensors, paths, places)


# Checkpoints of torch.distributed.checkpoint (DCP), ours or torch's, read by regions.
#
# Both the index and the parts are pickles, and a run may come from elsewhere: of the index only the
# classes that make one are built, of the parts only tensors and plain values.


_METADATA: Final = "torch.distributed.checkpoint.metadata"
_CLASSES: Final = {  # of an index
    _METADATA: {
        "Metadata",
        "MetadataIndex",
        "TensorStorageMetadata",
        "BytesStorageMetadata",
        "ChunkStorageMetadata",
        "TensorProperties",
        "StorageMeta",
        "_MEM_FORMAT_ENCODING",
    },
    "torch.distributed.checkpoint.filesystem": {"_StorageInfo"},
    "torch.serialization": {"_get_layout"},
    "torch": {
        "Size",
        *(name for name in dir(torch) if isinstance(getattr(torch, name), torch.dtype)),
    },
    "pathlib": {"Path", "PosixPath", "PurePosixPath"},
    "pathlib._local": {"Path", "PosixPath", "PurePosixPath"},
    "collections": {"OrderedDict"},
}


@dataclass(frozen=True)
class _Piece:
    """A part of a tensor in a file: what is wanted of it, and where that is."""

    name: str
    region: Region
    file: str
    first: int
    length: int


def _member(kind: object, name: str) -> Enum:
    """The member of an enumeration: Python 3.11 before 3.11.4 writes one as an attribute."""
    if isinstance(kind, type) and issubclass(kind, Enum) and name in kind.__members__:
        return kind.__members__[name]
    raise pickle.UnpicklingError(f"{name} of {kind} is in no index")


class _Unpickler(pickle.Unpickler):
    """Unpickle an index; raise UnpicklingError for a class that no index has."""

    def find_class(self, module_name: str, global_name: str, /) -> Any:  # noqa: ANN401 - of any type
        if (module_name, global_name) == ("builtins", "getattr"):
            return _member
        if global_name not in _CLASSES.get(module_name, ()):
            raise pickle.UnpicklingError(f"{module_name}.{global_name} is in no index")
        return super().find_class(module_name, global_name)


def read(
    folder: Path,
    contents: Manifest | None,
    wanted: Callable[[str, ShardLayout], Region | None],
) -> Checkpoint:
    """Return the wanted regions in a folder, which torch wrote where it has no manifest of ours.

    Raises ValueError if anything is missing or has changed.
    """
    index = _read_index(_bytes(folder / INDEX, contents))
    if contents is None and MANIFEST in index.state_dict_metadata:
        raise ValueError(f"{NAME} is missing")
    regions: dict[str, Region] = {}
    pieces: list[_Piece] = []
    for key, entry in index.state_dict_metadata.items():
        name = name_of(key)
        if name is not None and isinstance(entry, TensorStorageMetadata):
            region = wanted(name, ShardLayout(tuple(entry.size)))
            if region is not None:
                regions[name] = region
                pieces += _read_pieces(index, key, name, entry, region)
    arrays = _arrays(folder, contents, regions, pieces)
    params = {name: array for name, array in arrays.items() if "/" not in name}
    slots = {name: array for name, array in arrays.items() if "/" in name}
    if contents is not None:
        return Checkpoint(contents.step, params, slots, contents.facts)
    step, facts = (_value(folder, index, key) for key in (STEP, FACTS))
    return Checkpoint(int(step), params, slots, json.loads(str(facts)))


def _read_index(data: bytes) -> Metadata:
    try:
        index = _Unpickler(io.BytesIO(data)).load()
    except Exception as error:  # a pickle may fail in any way
        raise ValueError(f"{INDEX} cannot be read: {error}") from error
    if not isinstance(index, Metadata) or not isinstance(index.storage_data, dict):
        raise ValueError(f"{INDEX} makes no sense")
    return index


def _bytes(path: Path, contents: Manifest | None) -> bytes:
    """The bytes of a file, which our manifest knows if there is one."""
    if contents is not None:
        return checked(path, contents)
    if not path.is_file():
        raise ValueError(f"{path.name} is missing")
    return files.read(path)


def _read_pieces(
    index: Metadata, key: str, name: str, entry: TensorStorageMetadata, wanted: Region
) -> Iterator[_Piece]:
    """Yield the stored parts that overlap `wanted`; raises ValueError if they don't cover it."""
    found = 0
    for chunk in entry.chunks:
        ends = zip(chunk.offsets, chunk.sizes, strict=True)
        region = tuple((first, first + width) for first, width in ends)
        both = overlap(wanted, region)
        if both is not None:
            found += math.prod(widths(both))
            yield _Piece(name, region, *_place(index, MetadataIndex(key, chunk.offsets)))
    if found != math.prod(widths(wanted)):
        raise ValueError(f"{INDEX} does not say where all of {key} is")


def _place(index: Metadata, at: MetadataIndex) -> tuple[str, int, int]:
    """The file, the first byte and the number of bytes of a part."""
    info = index.storage_data.get(at)
    if info is None or getattr(info, "transform_descriptors", None):
        raise ValueError(f"{INDEX} does not say where {at.fqn} is, or in a way that xg cannot read")
    if Path(info.relative_path).name != info.relative_path:
        raise ValueError(f"{INDEX} names a file elsewhere")
    return info.relative_path, int(info.offset), int(info.length)


def _arrays(
    folder: Path,
    contents: Manifest | None,
    regions: Mapping[str, Region],
    pieces: list[_Piece],
) -> Arrays:
    """The wanted regions, put together from their parts; each file is read once."""
    found: Arrays = {}
    for file in dict.fromkeys(piece.file for piece in pieces):
        data = _bytes(folder / file, contents)
        for piece in pieces:
            if piece.file == file:
                part = _array(_load_part(data, piece.file, piece.first, piece.length), piece)
                paste(found, piece.name, regions[piece.name], part, piece.region)
    return {name: found[name] for name in regions}


def _array(value: object, piece: _Piece) -> Array:
    """The array of a part."""
    is_whole = isinstance(value, torch.Tensor) and tuple(value.shape) == widths(piece.region)
    if not is_whole or not isinstance(value, torch.Tensor) or value.dtype == torch.bfloat16:
        raise ValueError(f"{piece.name} in {piece.file} is not what {INDEX} says")
    return value.numpy()


def _value(folder: Path, index: Metadata, key: str) -> Any:  # noqa: ANN401 - a plain value
    """A plain value of a checkpoint of torch; raises ValueError where it has none of that key."""
    if MetadataIndex(key) not in index.storage_data:
        raise ValueError(f"torch wrote it without {key}, which says what run it is of")
    file, first, length = _place(index, MetadataIndex(key))
    value = _load_part(_bytes(folder / file, None), file, first, length)
    if not isinstance(value, int | str):
        raise ValueError(f"{key} makes no sense")
    return value


def _load_part(data: bytes, file: str, first: int, length: int) -> object:
    """The value that a part of a file holds."""
    if first < 0 or length < 0 or len(data) < first + length:
        raise ValueError(f"{file} is too short")
    try:
        return torch.load(io.BytesIO(data[first : first + length]), "cpu", weights_only=True)
    except Exception as error:  # torch raises what its reader of archives and of pickles raise
        raise ValueError(f"{file} has changed since it was written") from error
