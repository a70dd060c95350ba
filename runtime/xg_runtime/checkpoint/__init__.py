"""Checkpoints: a folder each, complete or absent, and refused when a single bit has changed.

    RUN/checkpoints/step-00000300/params.safetensors       parameters by their diagram names
                                  optimizer.safetensors    the optimizer's slots
                                  manifest.json            step, options, SHA-256 of both files

    save(run, Checkpoint(...))             atomic; the last two are kept
    load(run, previous=False)              the newest, or the one before it

The folder is filled under another name, manifest last, flushed, and renamed: a kill at any moment
leaves the older checkpoints whole. Damage is a CheckpointError that says how to continue; nothing
falls back to an older state by itself. Checkpoints that many ranks write together
(`xg_runtime.checkpoint.on_ranks`) have the same format; `load` returns them whole, written on any
mesh.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from xg_runtime import files
from xg_runtime.checkpoint import manifest
from xg_runtime.checkpoint.manifest import Json, Manifest
from xg_runtime.checkpoint.part_files import read_parts, write_part
from xg_runtime.checkpoint.parts import Region, ShardLayout, layouts_of
from xg_runtime.checkpoint.step_folders import begun, existing, folder_of, publish
from xg_runtime.errors import CheckpointError
from xg_runtime.module import Arrays
from xg_runtime.ranks.grid import Grid

__all__ = ["Checkpoint", "save", "load", "exists"]


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
    target, alone = folder_of(run, checkpoint.step), Grid({})
    params, slots = (layouts_of(a, {}, alone) for a in (checkpoint.params, checkpoint.slots))
    with files.file_errors("write"), begun(target) as new:
        hashes = write_part(new, "params", checkpoint.params, params, alone, 0)
        hashes |= write_part(new, "optimizer", checkpoint.slots, slots, alone, 0)
        contents = Manifest(checkpoint.step, checkpoint.facts, "", {}, params, slots, hashes)
        publish(run, new, target, contents)
    return target


def load(run: Path, *, previous: bool = False) -> Checkpoint:
    """Return the newest checkpoint of `run`, or with `previous` the one before it.

    Raises CheckpointError when there is none or it is damaged, FileError when it cannot be read.
    """
    return load_regions(run, lambda name, layout: layout.whole, previous=previous)


def load_regions(
    run: Path, wanted: Callable[[str, ShardLayout], Region | None], *, previous: bool = False
) -> Checkpoint:
    """Return of every tensor the region that is wanted, if any; raises as `load` does.

    `wanted` is asked by name: a parameter's, or a slot's, which ends in its parameter's.
    """
    folders = existing(run)
    place = 2 if previous else 1
    if len(folders) < place:
        which = "no earlier checkpoint" if folders else "no checkpoint"
        raise CheckpointError(f"{run} holds {which}")
    try:
        return _read(folders[-place], wanted)
    except ValueError as error:
        hint = "; the previous one can be asked for" if len(folders) > place else ""
        raise CheckpointError(f"checkpoint {folders[-place]} is damaged: {error}{hint}") from error


def exists(run: Path) -> bool:
    """Return whether `run` holds a checkpoint, damaged or not."""
    return bool(existing(run))


def _read(folder: Path, wanted: Callable[[str, ShardLayout], Region | None]) -> Checkpoint:
    """Return the checkpoint in `folder`; raises ValueError if anything has changed."""
    contents = manifest.read(folder)
    return Checkpoint(
        step=contents.step,
        params=read_parts(folder, "params", contents, wanted),
        slots=read_parts(folder, "optimizer", contents, wanted),
        facts=contents.facts,
    )
