"""Checkpoints: a folder each, complete or absent, and refused when a single bit has changed.

    RUN/checkpoints/step-00000300/params.safetensors       parameters by their diagram names
                                  optimizer.safetensors    the optimizer's slots
                                  manifest.json            step, options, SHA-256 of both files

    save(run, Checkpoint(...))             atomic; the last two are kept
    load(run, previous=False)              the newest, or the one before it

The folder is filled under another name, manifest last, flushed, and renamed: a kill at any moment
leaves the older checkpoints whole. Damage is a CheckpointError that says how to go on; nothing
falls back to an older state by itself.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeAlias

from xg_runtime import files, tensorfile
from xg_runtime.errors import CheckpointError
from xg_runtime.module import Arrays

Json: TypeAlias = dict[str, Any]

KEPT: Final = 2
_FORMAT: Final = 1
_PARAMS: Final = "params.safetensors"
_SLOTS: Final = "optimizer.safetensors"
_MANIFEST: Final = "manifest.json"


@dataclass(frozen=True)
class Checkpoint:
    """The state after `step` steps, and the facts a resumed run has to find unchanged.

    There is no generator state: every random number is a function of seed and step.
    """

    step: int
    params: Arrays = field(repr=False)
    slots: Arrays = field(repr=False)
    facts: Json  # program, options, data, vocabulary: JSON, by name


def save(run: Path, checkpoint: Checkpoint) -> Path:
    """Write `checkpoint` under `run`, drop all but the last two, return its folder.

    Raises FileError.
    """
    target = _folder(run, checkpoint.step)
    with files.file_errors("write"):
        target.parent.mkdir(parents=True, exist_ok=True)
        files.remove_leftovers(target.parent)
        new = files.beside(target, "new")
        try:
            _fill(new, checkpoint)
            _swap(new, target)
        finally:
            if new.exists():
                files.remove_folder(new)
        files.sync_folder(target.parent)
        _drop_others(run, target)
    return target


def load(run: Path, *, previous: bool = False) -> Checkpoint:
    """Return the newest checkpoint of `run`, or with `previous` the one before it.

    Raises CheckpointError when there is none or it is damaged, FileError when it cannot be read.
    """
    folders = _existing(run)
    wanted = 2 if previous else 1
    if len(folders) < wanted:
        which = "no earlier checkpoint" if folders else "no checkpoint"
        raise CheckpointError(f"{run} holds {which}")
    try:
        return _read(folders[-wanted])
    except ValueError as error:
        hint = "; the previous one can be asked for" if len(folders) > wanted else ""
        raise CheckpointError(f"checkpoint {folders[-wanted]} is damaged: {error}{hint}") from error


def exists(run: Path) -> bool:
    """Return whether `run` holds a checkpoint, damaged or not."""
    return bool(_existing(run))


def seal(manifest: Mapping[str, Any]) -> str:
    """Return the hash that a manifest carries of itself, under `manifest`."""
    return _sha256(json.dumps(manifest, sort_keys=True).encode())


def _fill(folder: Path, checkpoint: Checkpoint) -> None:
    """Write the files, then the manifest that makes them a checkpoint."""
    contents = {
        _PARAMS: tensorfile.pack(checkpoint.params),
        _SLOTS: tensorfile.pack(checkpoint.slots),
    }
    manifest = {
        "format": _FORMAT,
        "step": checkpoint.step,
        "facts": checkpoint.facts,
        "files": {name: _sha256(data) for name, data in contents.items()},
    }
    folder.mkdir()
    for name, data in contents.items():
        files.write_synced(folder / name, data)
    sealed = manifest | {"manifest": seal(manifest)}
    files.write_synced(folder / _MANIFEST, json.dumps(sealed, indent=1).encode())
    files.sync_folder(folder)


def _swap(new: Path, target: Path) -> None:
    """Rename `new` to `target`; what stood there (a later run's twin, or damage) goes."""
    if target.exists():
        old = files.beside(target, "old")
        target.rename(old)
        new.rename(target)
        files.remove_folder(old)
    else:
        new.rename(target)


def _drop_others(run: Path, newest: Path) -> None:
    """Keep `newest` and the one before it; later ones are of a course that was abandoned."""
    folders = _existing(run)
    place = folders.index(newest)
    for folder in folders[: max(place + 1 - KEPT, 0)] + folders[place + 1 :]:
        files.remove_folder(folder)


def _read(folder: Path) -> Checkpoint:
    """Return the checkpoint in `folder`; raises ValueError if anything has changed."""
    manifest = _read_manifest(folder / _MANIFEST)
    hashes = manifest["files"]
    return Checkpoint(
        step=manifest["step"],
        params=tensorfile.unpack(_read_hashed(folder / _PARAMS, hashes[_PARAMS])),
        slots=tensorfile.unpack(_read_hashed(folder / _SLOTS, hashes[_SLOTS])),
        facts=manifest["facts"],
    )


def _read_manifest(path: Path) -> Json:
    if not path.is_file():
        raise ValueError(f"{path.name} is missing")
    try:
        manifest: Json = json.loads(files.read(path))
        held = manifest.pop("manifest")
    except (ValueError, KeyError, AttributeError, TypeError, RecursionError) as error:
        raise ValueError(f"{path.name} cannot be read") from error
    if held != seal(manifest):
        raise ValueError(f"{path.name} has changed since it was written")
    if manifest["format"] != _FORMAT:
        raise ValueError(f"{path.name} has format {manifest['format']}, this xg reads {_FORMAT}")
    return manifest


def _read_hashed(path: Path, sha256: str) -> bytes:
    if not path.is_file():
        raise ValueError(f"{path.name} is missing")
    data = files.read(path)
    if _sha256(data) != sha256:
        raise ValueError(f"{path.name} has changed since it was written")
    return data


def _existing(run: Path) -> list[Path]:
    """Return the checkpoint folders of `run`, oldest first."""
    folders = (run / "checkpoints").glob("step-*")
    return sorted((path for path in folders if path.name[5:].isdigit()), key=_step_of)


def _step_of(folder: Path) -> int:
    return int(folder.name[5:])


def _folder(run: Path, step: int) -> Path:
    return run / "checkpoints" / f"step-{step:08d}"


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
