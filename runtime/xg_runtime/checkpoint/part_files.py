"""The files of a checkpoint: each rank's parts, written and read again for any other mesh."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

from xg_runtime import files, tensorfile
from xg_runtime.checkpoint.manifest import Kind, Manifest, file_name, sha256
from xg_runtime.checkpoint.parts import Region, ShardLayout, index_within, overlap, widths
from xg_runtime.module import Array, Arrays
from xg_runtime.ranks.grid import Grid


def write_part(
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
    files.write_synced(folder / name, data)
    return {name: sha256(data)}


def read_parts(
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
            parts = _read(folder / file_name(kind, manifest.grid, rank), manifest)
            for name, region in held.items():
                _paste(arrays, name, regions[name], _part(parts, name, region), region)
    return {name: arrays[name] for name in regions}


def _held(
    grid: Grid, rank: int, layouts: Mapping[str, ShardLayout], wanted: Mapping[str, Region]
) -> dict[str, Region]:
    """The regions in a rank's file of which something is wanted."""
    regions = {
        name: layout.region(grid, rank)
        for name, layout in layouts.items()
        if name in wanted and layout.is_written_by(grid, rank)
    }
    return {n: region for n, region in regions.items() if overlap(wanted[n], region) is not None}


def _read(path: Path, manifest: Manifest) -> Arrays:
    if not path.is_file():
        raise ValueError(f"{path.name} is missing")
    data = files.read(path)
    if sha256(data) != manifest.files.get(path.name):
        raise ValueError(f"{path.name} has changed since it was written")
    return tensorfile.unpack(data)


def _part(parts: Arrays, name: str, region: Region) -> Array:
    if name not in parts or parts[name].shape != widths(region):
        raise ValueError(f"{name} is not what the manifest says")
    return parts[name]


def _paste(found: Arrays, name: str, wanted: Region, part: Array, region: Region) -> None:
    """Add what is wanted of a part to what was found of its tensor."""
    if region == wanted:
        found[name] = part
        return
    if name not in found:
        found[name] = np.empty(widths(wanted), part.dtype)
    both = overlap(wanted, region)
    assert both is not None
    found[name][index_within(both, wanted)] = part[index_within(both, region)]
