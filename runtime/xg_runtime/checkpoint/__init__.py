"""Checkpoints: a folder each, complete or absent, and refused when a single bit has changed.

    RUN/checkpoints/step-00000300/params.safetensors       parameters by their diagram names
                                  optimizer.safetensors    the optimizer's slots
                                  manifest.json            step, options, SHA-256 of both files
    or instead                    .metadata, *.distcp      all of it, as torch reads it
    save(run, Checkpoint(...))             atomic; the last two are kept
    load(run, previous=False)              the newest, or the one before it

The folder is filled under another name, manifest last, flushed, and renamed: a kill at any moment
leaves the older checkpoints whole. Damage is a CheckpointError that says how to continue; nothing
falls back to an older state by itself. Checkpoints that many ranks write together
(`xg_runtime.checkpoint.on_ranks`) have the same format; `load` returns them whole, written on any
mesh. Files of torch (`save(run, Checkpoint(...), "dcp")`) may also be written by torch.
"""

from collections.abc import Callable
from pathlib import Path

from xg_runtime import files
from xg_runtime.checkpoint.forms import read, storage_of
from xg_runtime.checkpoint.manifest import (
    Checkpoint,
    Form,
    Manifest,
    Region,
    ShardLayout,
    begun,
    existing,
    folder_of,
    layouts_of,
    publish,
)
from xg_runtime.errors import CheckpointError
from xg_runtime.ranks.grid import Grid

__all__ = ["Checkpoint", "Form", "save", "load", "exists"]


def save(run: Path, checkpoint: Checkpoint, form: Form = "safetensors") -> Path:
    """Write `checkpoint` under `run`, drop all but the last two, return its folder.

    Raises FileError, and InputError where the form needs torch and there is none.
    """
    target, alone, storage = folder_of(run, checkpoint.step), Grid({}), storage_of(form)
    params, slots = (layouts_of(a, {}, alone) for a in (checkpoint.params, checkpoint.slots))
    with files.file_errors("write"), begun(target) as new:
        said = storage.write(new, checkpoint, params, slots, alone, 0)
        hashes = storage.finish(new, checkpoint, params, slots, [said])
        step, facts = checkpoint.step, checkpoint.facts
        contents = Manifest(step, facts, "", {}, params, slots, hashes, form)
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
        return read(folders[-place], wanted)
    except ValueError as error:
        hint = "; the previous one can be asked for" if len(folders) > place else ""
        raise CheckpointError(f"checkpoint {folders[-place]} is damaged: {error}{hint}") from error


def exists(run: Path) -> bool:
    """Return whether `run` holds a checkpoint, damaged or not."""
    return bool(existing(run))
