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

import contextlib
import hashlib
import json
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from typing import Any, Final, Literal, Protocol, TypeAlias

import numpy as np

from xg_runtime import files
from xg_runtime.errors import InputError
from xg_runtime.module import Array, Arrays
from xg_runtime.ranks.grid import Grid

# The place of a rank's part in a global tensor.
#
# A tensor's cuts say which axes of the mesh cut which of its own: `[("N_T", -1)]`, axes of the
# tensor counted from the end, the outermost first where several cut one. Along every other axis of
# the mesh the ranks have replicas, and the first of them writes for all. Where a cut has a length
# behind it parts are padded with zeros; what is written is not.


Cuts: TypeAlias = tuple[tuple[str, int], ...]
RankCuts: TypeAlias = tuple[tuple[str, int] | tuple[str, int, int], ...]
Region: TypeAlias = tuple[tuple[int, int], ...]  # first and behind the last place, for each axis


@dataclass(frozen=True)
class ShardLayout:
    """A whole tensor's shape, and how it is cut.

    It is on all ranks of a mesh axis, unless `at` names the place that has it: a pipeline's stage.
    """

    shape: tuple[int, ...]
    cuts: Cuts = ()
    at: Cuts = ()

    @classmethod
    def of_part(cls, part: Array, cuts: RankCuts, grid: Grid, at: Cuts = ()) -> ShardLayout:
        """Return the layout of a global tensor, given the part that one rank has."""
        shape = list(part.shape)
        for mesh_axis, axis, *_ in cuts:
            shape[axis] *= grid.size(mesh_axis)
        for _, axis, *length in cuts:
            shape[axis] = (*length, shape[axis])[0]
        return cls(tuple(shape), tuple((over, axis) for over, axis, *_ in cuts), at)

    @property
    def whole(self) -> Region:
        """All of it."""
        return tuple((0, width) for width in self.shape)

    def region(self, grid: Grid, rank: int, *, even: bool = False) -> Region:
        """The region of a rank; raises ValueError where all have to be `even` and are not."""
        at = grid.coordinates(rank)
        place, count = [0] * len(self.shape), [1] * len(self.shape)
        for mesh_axis, axis in self.cuts:
            place[axis] = place[axis] * grid.size(mesh_axis) + at[mesh_axis]
            count[axis] *= grid.size(mesh_axis)
        for width, parts in zip(self.shape, count, strict=True):
            if even and width % parts:
                raise ValueError(f"{list(self.shape)} cannot be cut into {parts} equal parts")
        found: list[tuple[int, int]] = []
        for at_, width, parts in zip(place, self.shape, count, strict=True):
            part = -(-width // parts)
            found.append((min(at_ * part, width), min((at_ + 1) * part, width)))
        return tuple(found)

    def is_written_by(self, grid: Grid, rank: int) -> bool:
        """Whether a rank writes for those that have the same part."""
        cutting = {mesh_axis for mesh_axis, _ in self.cuts}
        places = dict(self.at)
        found = grid.coordinates(rank).items()
        return all(axis in cutting or at == places.get(axis, 0) for axis, at in found)


def layouts_of(
    parts: Mapping[str, Array], cuts: Mapping[str, RankCuts], grid: Grid
) -> dict[str, ShardLayout]:
    """Return layouts from one rank's `parts`; a tensor without `cuts` is whole on every rank."""
    return {
        name: ShardLayout.of_part(part, cuts.get(name, ()), grid) for name, part in parts.items()
    }


def without_pads(
    parts: Mapping[str, Array], layouts: Mapping[str, ShardLayout], grid: Grid, rank: int
) -> dict[str, Array]:
    """The parts of a rank as they are written: padding is not."""
    found: dict[str, Array] = {}
    for name, part in parts.items():
        true = widths(layouts[name].region(grid, rank))
        found[name] = part if true == part.shape else part[tuple(map(slice, true))]
    return found


def with_pads(part: Array, layout: ShardLayout, grid: Grid) -> Array:
    """A part as its rank has it, padded to the width of the others."""
    shape, at = list(part.shape), range(-part.ndim, 0)
    for axis in at:
        parts = prod(grid.size(over) for over, cut in layout.cuts if cut == axis)
        shape[axis] = -(-layout.shape[axis] // parts)
    if tuple(shape) == part.shape:
        return part
    padded = np.zeros(shape, part.dtype)
    padded[tuple(map(slice, part.shape))] = part
    return padded


def overlap(one: Region, other: Region) -> Region | None:
    """Return the region that two regions share; None if they are disjoint."""
    both = tuple((max(a, c), min(b, d)) for (a, b), (c, d) in zip(one, other, strict=True))
    return both if all(first < last for first, last in both) or _is_empty(one) else None


def relative_index(region: Region, outer: Region) -> tuple[slice, ...]:
    """The index of a region in an array that holds `outer`."""
    return tuple(
        slice(first - start, last - start)
        for (first, last), (start, _) in zip(region, outer, strict=True)
    )


def widths(region: Region) -> tuple[int, ...]:
    """The shape of a region."""
    return tuple(last - first for first, last in region)


def _is_empty(region: Sequence[tuple[int, int]]) -> bool:
    return any(first == last for first, last in region)


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


# The state of a training run, as a checkpoint holds it.


@dataclass(frozen=True)
class Checkpoint:
    """The state after `step` steps, and the facts a resumed run has to find unchanged.

    There is no generator state: every random number is a function of seed and step.
    """

    step: int
    params: Arrays = field(repr=False)
    slots: Arrays = field(repr=False)
    facts: Json  # program, options, data, vocabulary: JSON, by name


# Define the writer of a checkpoint's arrays; each form of checkpoint has one.
#
# safetensors    a file of parameters and one of slots for each rank: `part_files`
# dcp            a checkpoint of torch.distributed.checkpoint, which torch reads: `dcp`


Layouts: TypeAlias = Mapping[str, ShardLayout]


class Storage(Protocol):
    """A writer; `params` and `slots` are the layouts of all whole tensors."""

    def write(
        self, folder: Path, part: Checkpoint, params: Layouts, slots: Layouts, grid: Grid, rank: int
    ) -> Json:
        """Write the part of a rank; return, as JSON, what `finish` needs of it. Raises OSError."""
        ...

    def finish(
        self, folder: Path, part: Checkpoint, params: Layouts, slots: Layouts, said: Sequence[Json]
    ) -> dict[str, str]:
        """Complete what all ranks have written; return the hashes of all files by their names.

        `said` is what `write` returned on every rank. Raises OSError.
        """
        ...


# The folders of a run's checkpoints: begun under another name, published by one rename.


KEPT: Final = 2


def folder_of(run: Path, step: int) -> Path:
    """Return the folder of the checkpoint of a step."""
    return run / "checkpoints" / f"step-{step:08d}"


def existing(run: Path) -> list[Path]:
    """Return the checkpoint folders of `run`, oldest first."""
    folders = (run / "checkpoints").glob("step-*")
    return sorted((path for path in folders if path.name[5:].isdigit()), key=_step_of)


@contextlib.contextmanager
def begun(target: Path) -> Generator[Path]:
    """Make the folder that is to become `target`; gone at the end unless it was published.

    Raises OSError.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    files.remove_leftovers(target.parent)
    new = files.temporary_path(target, "new")
    new.mkdir()
    try:
        yield new
    finally:
        if new.exists():
            files.remove_folder(new)


def publish(run: Path, new: Path, target: Path, contents: Manifest) -> None:
    """Write the manifest that makes `new` a checkpoint, and give it its name; raises OSError."""
    files.write_and_sync(new / NAME, pack(contents))
    files.sync_folder(new)
    _swap(new, target)
    files.sync_folder(target.parent)
    _prune_folders(run, target)


def _swap(new: Path, target: Path) -> None:
    """Rename `new` to `target`; an old target (a later run's twin, or damage) is removed."""
    if target.exists():
        old = files.temporary_path(target, "old")
        target.rename(old)
        new.rename(target)
        files.remove_folder(old)
    else:
        new.rename(target)


def _prune_folders(run: Path, newest: Path) -> None:
    """Keep `newest` and the one before it; later ones are of a course that was abandoned."""
    folders = existing(run)
    place = folders.index(newest)
    for folder in folders[: max(place + 1 - KEPT, 0)] + folders[place + 1 :]:
        files.remove_folder(folder)


def _step_of(folder: Path) -> int:
    return int(folder.name[5:])
