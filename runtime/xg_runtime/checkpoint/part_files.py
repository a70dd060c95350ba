"""The files of a checkpoint: each rank's parts, written and read again for any other mesh."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

import numpy as np

from xg_runtime import files, tensorfile
from xg_runtime.checkpoint.manifest import (
    Checkpoint,
    Json,
    Kind,
    Layouts,
    Manifest,
    Region,
    ShardLayout,
    Storage,
    file_name,
    overlap,
    relative_index,
    sha256,
    widths,
)
from xg_runtime.module import Array, Arrays
from xg_runtime.ranks.grid import Grid


class _Safetensors:
    """The writer of safetensors: a rank has at most one file of each kind."""

    def write(
        self, folder: Path, part: Checkpoint, params: Layouts, slots: Layouts, grid: Grid, rank: int
    ) -> Json:
        hashes = _write_part(folder, "params", part.params, params, grid, rank)
        return hashes | _write_part(folder, "optimizer", part.slots, slots, grid, rank)

    def finish(
        self, folder: Path, part: Checkpoint, params: Layouts, slots: Layouts, said: Sequence[Json]
    ) -> dict[str, str]:
        del folder, part, params, slots
        return {name: sha256 for hashes in said for name, sha256 in hashes.items()}


SAFETENSORS: Final[Storage] = _Safetensors()


def read(
    folder: Path,
    contents: Manifest,
    wanted: Callable[[str, ShardLayout], Region | None],
) -> Checkpoint:
    """Return the wanted regions in a folder; raises ValueError if anything has changed."""
    params, slots = (
        _read_parts(folder, kind, contents, wanted) for kind in ("params", "optimizer")
    )
    return Checkpoint(contents.step, params, slots, contents.facts)


def _write_part(
    folder: Path,
    kind: Kind,
    arrays: Arrays,
    layouts: Mapping[str, ShardLayout],
    grid: Grid,
    rank: int,
) -> dict[str, str]:
    """Write the part of a rank; return the file's hash by its name, nothing without a file.

    Raises OSError.
    """
    ours = {n: a for n, a in arrays.items() if layouts[n].is_written_by(grid, rank)}
    if not ours and grid.count > 1:
        return {}
    data = tensorfile.pack(ours)
    name = file_name(kind, grid, rank)
    files.write_and_sync(folder / name, data)
    return {name: sha256(data)}


def _read_parts(
    folder: Path,
    kind: Kind,
    manifest: Manifest,
    wanted: Callable[[str, ShardLayout], Region | None],
) -> Arrays:
    """Return a region of every wanted tensor of a kind; raises ValueError if a file has changed."""
    layouts = manifest.params if kind == "params" else manifest.slots
    asked = ((name, wanted(name, layout)) for name, layout in layouts.items())
    regions = {name: region for name, region in asked if region is not None}
    arrays: Arrays = {}
    for rank in range(manifest.grid.count):
        held = _held(manifest.grid, rank, layouts, regions)
        if held or manifest.grid.count == 1:
            parts = _read_arrays(folder / file_name(kind, manifest.grid, rank), manifest)
            for name, region in held.items():
                paste(arrays, name, regions[name], _part(parts, name, region), region)
    return {name: arrays[name] for name in regions}


def _held(
    grid: Grid, rank: int, layouts: Mapping[str, ShardLayout], wanted: Mapping[str, Region]
) -> dict[str, Region]:
    """Return the regions in a rank's file that overlap the wanted ones."""
    regions = {
        name: layout.region(grid, rank)
        for name, layout in layouts.items()
        if name in wanted and layout.is_written_by(grid, rank)
    }
    return {n: region for n, region in regions.items() if overlap(wanted[n], region) is not None}


def _read_arrays(path: Path, manifest: Manifest) -> Arrays:
    return tensorfile.unpack(checked(path, manifest))


def checked(path: Path, manifest: Manifest) -> bytes:
    """Return the bytes of a file; raises ValueError if they have changed since."""
    if not path.is_file():
        raise ValueError(f"{path.name} is missing")
    data = files.read(path)
    if sha256(data) != manifest.files.get(path.name):
        raise ValueError(f"{path.name} has changed since it was written")
    return data


def _part(parts: Arrays, name: str, region: Region) -> Array:
    if name not in parts or parts[name].shape != widths(region):
        raise ValueError(f"{name} is not what the manifest says")
    return parts[name]


def paste(found: Arrays, name: str, wanted: Region, part: Array, region: Region) -> None:
    """Add what is wanted of a part to what was found of its tensor."""
    if region == wanted:
        found[name] = part
        return
    if name not in found:
        found[name] = np.empty(widths(wanted), part.dtype)
    both = overlap(wanted, region)
    assert both is not None
    found[name][relative_index(both, wanted)] = part[relative_index(both, region)]
