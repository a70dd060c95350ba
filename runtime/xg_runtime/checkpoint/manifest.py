"""The manifest of a checkpoint: what makes its files one, complete and unchanged.

    format, step, facts      what was done, and what a resumed run has to find unchanged
    plan, mesh               how the run was divided, and over how many ranks; {} for one device
    form                     "dcp" where the arrays are in the files of torch
    params, slots            shape of every whole tensor, and how it was cut
    files                    SHA-256 of every file
    manifest                 SHA-256 of all that

Every rank has at most one file of parameters and one of optimizer slots, called after its number;
on one device they have no number. Files of torch have its names.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

from xg_runtime import files
from xg_runtime.checkpoint.parts import ShardLayout
from xg_runtime.errors import InputError
from xg_runtime.ranks.grid import Grid

Json: TypeAlias = dict[str, Any]
Kind: TypeAlias = Literal["params", "optimizer"]
Form: TypeAlias = Literal["safetensors", "dcp"]

NAME: Final = "manifest.json"
INDEX: Final = ".metadata"  # of torch: which tensor is where in its files
_FORMAT: Final = 2
_MOST_RANKS: Final = 65_536  # a hostile manifest is not to keep anybody busy


@dataclass(frozen=True)
class Manifest:
    """The content of a manifest."""

    step: int
    facts: Json
    plan: str
    mesh: Mapping[str, int]
    params: Mapping[str, ShardLayout]
    slots: Mapping[str, ShardLayout]
    files: Mapping[str, str]
    form: Form = "safetensors"

    @property
    def grid(self) -> Grid:
        """The ranks that wrote the checkpoint."""
        return Grid(self.mesh)


def file_name(kind: Kind, grid: Grid, rank: int) -> str:
    """The name of a rank's file."""
    return f"{kind}.safetensors" if grid.count == 1 else f"{kind}-{rank}.safetensors"


def checksum(manifest: Mapping[str, Any]) -> str:
    """Return the hash that a manifest carries of itself, under `manifest`."""
    return sha256(json.dumps(manifest, sort_keys=True).encode())


def sha256(data: bytes) -> str:
    """Return the hash of a file's bytes."""
    return hashlib.sha256(data).hexdigest()


def pack(manifest: Manifest) -> bytes:
    """Return the bytes of the file."""
    data: Json = {
        "format": _FORMAT,
        "step": manifest.step,
        "facts": manifest.facts,
        "plan": manifest.plan,
        "mesh": dict(manifest.mesh),
        "params": {name: _layout_data(layout) for name, layout in manifest.params.items()},
        "slots": {name: _layout_data(layout) for name, layout in manifest.slots.items()},
        "files": dict(manifest.files),
        **({"form": manifest.form} if manifest.form != "safetensors" else {}),
    }
    return json.dumps(data | {"manifest": checksum(data)}, indent=1).encode()


def read(folder: Path) -> Manifest:
    """Return the manifest in a folder; raises ValueError if it is missing or has changed."""
    path = folder / NAME
    if not path.is_file():
        raise ValueError(f"{NAME} is missing")
    try:
        data: Json = json.loads(files.read(path))
        held = data.pop("manifest")
    except (ValueError, KeyError, AttributeError, TypeError, RecursionError) as error:
        raise ValueError(f"{NAME} cannot be read") from error
    if held != checksum(data):
        raise ValueError(f"{NAME} has changed since it was written")
    if data["format"] != _FORMAT:
        raise ValueError(f"{NAME} has format {data['format']}, this xg reads {_FORMAT}")
    try:
        return _parse_manifest(data)
    except (KeyError, TypeError, AttributeError, InputError) as error:
        raise ValueError(f"{NAME} makes no sense") from error


def _parse_manifest(data: Json) -> Manifest:
    grid = Grid({str(axis): int(size) for axis, size in data["mesh"].items()})
    if grid.count > _MOST_RANKS:
        raise ValueError(f"{NAME} tells of {grid.count} ranks, at most {_MOST_RANKS} are read")
    return Manifest(
        step=int(data["step"]),
        facts=data["facts"],
        plan=str(data["plan"]),
        mesh=grid.sizes,
        params={name: _layout(name, entry, grid) for name, entry in data["params"].items()},
        slots={name: _layout(name, entry, grid) for name, entry in data["slots"].items()},
        files=dict(data["files"]),
        form="dcp" if data.get("form") == "dcp" else "safetensors",
    )


def _layout_data(layout: ShardLayout) -> Json:
    cuts = {"cuts": [list(cut) for cut in layout.cuts]} if layout.cuts else {}
    at = {"at": [list(place) for place in layout.at]} if layout.at else {}
    return {"shape": list(layout.shape), **cuts, **at}


def _layout(name: str, data: Json, grid: Grid) -> ShardLayout:
    cuts = tuple((str(mesh_axis), int(axis)) for mesh_axis, axis in data.get("cuts", ()))
    shape = tuple(map(int, data["shape"]))
    fits = all(axis in grid.sizes and -len(shape) <= place < 0 for axis, place in cuts)
    at = tuple((str(axis), int(place)) for axis, place in data.get("at", ()))
    fits = fits and all(0 <= place < grid.sizes.get(axis, 0) for axis, place in at)
    if not fits or min(shape, default=0) < 0:
        raise ValueError(f"{name} makes no sense in {NAME}")
    return ShardLayout(shape, cuts, at)
