"""Checkpoints in the format of torch.distributed.checkpoint (DCP), written without its collectives.

A rank writes its parts one after the other into one file, each as `torch.save` does; rank 0 then
writes the index, which says where each part of each tensor is. So simulated ranks and one device
write what processes write, in the two phases of all our checkpoints.

`dcp.save` needs a process group, which simulated ranks and one device lack, and publishes without
hashes. The index is a pickle, so only the classes of an index are built, and parts load with
`weights_only`.
"""

# pyright: reportUnknownMemberType=false

from __future__ import annotations

import io
import pickle
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from torch.distributed.checkpoint.filesystem import _StorageInfo  # pyright: ignore[reportPrivateUsage]
from torch.distributed.checkpoint.metadata import (
    BytesStorageMetadata,
    ChunkStorageMetadata,
    Metadata,
    MetadataIndex,
    TensorProperties,
    TensorStorageMetadata,
)

from xg_runtime import files
from xg_runtime.checkpoint.manifest import INDEX, Json, sha256
from xg_runtime.checkpoint.parts import ShardLayout, widths
from xg_runtime.checkpoint.state import Checkpoint
from xg_runtime.checkpoint.storage import Layouts, Storage
from xg_runtime.checkpoint.torch_names import Path as Keys
from xg_runtime.checkpoint.torch_names import key_of, path_of, values
from xg_runtime.module import Arrays
from xg_runtime.ranks.grid import Grid


class _Dcp:
    """The writer of torch's format."""

    def write(
        self, folder: Path, part: Checkpoint, params: Layouts, slots: Layouts, grid: Grid, rank: int
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
        self, folder: Path, part: Checkpoint, params: Layouts, slots: Layouts, said: Sequence[Json]
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
