"""Checkpoints of torch.distributed.checkpoint (DCP), ours or torch's, read by regions.

Both the index and the parts are pickles, and a run may come from elsewhere: of the index only the
classes that make one are built, of the parts only tensors and plain values.
"""

from __future__ import annotations

import io
import json
import math
import pickle
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any, Final

import torch
from torch.distributed.checkpoint.metadata import Metadata, MetadataIndex, TensorStorageMetadata

from xg_runtime import files
from xg_runtime.checkpoint.manifest import INDEX, NAME, Manifest
from xg_runtime.checkpoint.part_files import checked, paste
from xg_runtime.checkpoint.parts import Region, ShardLayout, overlap, widths
from xg_runtime.checkpoint.state import Checkpoint
from xg_runtime.checkpoint.torch_names import FACTS, MANIFEST, STEP, name_of
from xg_runtime.module import Array, Arrays

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
    index = _index(_bytes(folder / INDEX, contents))
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
                pieces += _pieces(index, key, name, entry, region)
    arrays = _arrays(folder, contents, regions, pieces)
    params = {name: array for name, array in arrays.items() if "/" not in name}
    slots = {name: array for name, array in arrays.items() if "/" in name}
    if contents is not None:
        return Checkpoint(contents.step, params, slots, contents.facts)
    step, facts = (_value(folder, index, key) for key in (STEP, FACTS))
    return Checkpoint(int(step), params, slots, json.loads(str(facts)))


def _index(data: bytes) -> Metadata:
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


def _pieces(
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
    folder: Path, contents: Manifest | None, regions: Mapping[str, Region], pieces: list[_Piece]
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
