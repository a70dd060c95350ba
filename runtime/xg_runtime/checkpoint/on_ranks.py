"""Checkpoints that all ranks write and read together, each its own part.

    save(run, Checkpoint(step, params, slots, facts), cuts)      on every rank, with its parts
    load(run, cuts)                                              on every rank of any mesh

`cuts` says for each parameter that is not whole on every rank which axes of the mesh cut which of
its own: `{"W_up": (("N_T", -1),)}`; slots are cut as their parameters. The format is that of
`xg_runtime.checkpoint`: a run can resume with another plan, on another mesh, or on one device.

Written in two phases, into a folder that all ranks can reach: every rank flushes its files under a
temporary name; when all have done so, rank 0 writes the manifest and renames. A rank that is lost
in between leaves the older checkpoints as they were.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from xg_runtime import files
from xg_runtime.checkpoint import Checkpoint, load_regions
from xg_runtime.checkpoint.forms import storage_of
from xg_runtime.checkpoint.manifest import (
    Form,
    Manifest,
    RankCuts,
    Region,
    ShardLayout,
    begun,
    folder_of,
    layouts_of,
    publish,
    with_pads,
    without_pads,
)
from xg_runtime.errors import CheckpointError
from xg_runtime.module import Array, Arrays
from xg_runtime.ranks.collectives import all_reduce_max
from xg_runtime.ranks.grid import Grid
from xg_runtime.ranks.local import number
from xg_runtime.ranks.mesh import current
from xg_runtime.ranks.pipeline import Link, writers
from xg_runtime.ranks.texts import texts_of_all

__all__ = ["save", "load"]


def save(
    run: Path,
    checkpoint: Checkpoint,
    cuts: Mapping[str, RankCuts],
    *,
    plan: str = "",
    links: Sequence[Link] = (),
    form: Form = "safetensors",
) -> Path:
    """Write the parts of all ranks as one checkpoint, drop all but the last two, return its folder.

    `checkpoint` holds this rank's parts, those of its stages in a pipeline. Raises FileError,
    and InputError where the form needs torch and there is none.
    """
    mesh, storage = current(), storage_of(form)
    grid, rank = Grid(mesh.sizes), number()
    target = folder_of(run, checkpoint.step)
    params = layouts_of(checkpoint.params, cuts, grid)
    slots = layouts_of(checkpoint.slots, _slot_cuts(checkpoint.slots, cuts), grid)
    checkpoint = _without_pads(checkpoint, params, slots, rank)
    if links:
        params, slots = (_of_all_stages(layouts, links) for layouts in (params, slots))
    leads = rank == 0
    with contextlib.ExitStack() as stack:
        stack.enter_context(mesh.counters.during("checkpoint"))
        stack.enter_context(files.file_errors("write"))
        if leads:
            stack.enter_context(begun(target))
        new = files.temporary_path(target, "new", _largest(os.getpid() if leads else 0, grid))
        ours = storage.write(new, checkpoint, params, slots, grid, rank)
        said = [json.loads(text) for text in texts_of_all(json.dumps(ours))]
        if leads:
            hashes = storage.finish(new, checkpoint, params, slots, said)
            facts, step = checkpoint.facts, checkpoint.step
            contents = Manifest(step, facts, plan, grid.sizes, params, slots, hashes, form)
            publish(run, new, target, contents)
        _largest(0, grid)  # no rank continues before it is there
    return target


def _without_pads(
    checkpoint: Checkpoint,
    params: Mapping[str, ShardLayout],
    slots: Mapping[str, ShardLayout],
    rank: int,
) -> Checkpoint:
    """A rank's parts as they are written."""
    grid = Grid(current().sizes)
    return replace(
        checkpoint,
        params=without_pads(checkpoint.params, params, grid, rank),
        slots=without_pads(checkpoint.slots, slots, grid, rank),
    )


def _of_all_stages(
    mine: Mapping[str, ShardLayout], links: Sequence[Link]
) -> dict[str, ShardLayout]:
    """The layouts of all stages, each with the rank that writes it: the first that has it."""
    link, shared = links[0], writers(links)
    said = {
        name: [layout.shape, layout.cuts, shared.get(_parameter(name), link.rank)]
        for name, layout in mine.items()
    }
    found: dict[str, ShardLayout] = {}
    for text in texts_of_all(json.dumps(said)):
        for name, (shape, cuts, writer) in json.loads(text).items():
            cut = tuple((str(axis), int(place)) for axis, place in cuts)
            found[name] = ShardLayout(tuple(shape), cut, ((link.axis, writer),))
    return found


def load(
    run: Path,
    cuts: Mapping[str, RankCuts],
    *,
    previous: bool = False,
    has: Callable[[str], bool] = lambda _: True,
) -> Checkpoint:
    """Return this rank's parts of the newest checkpoint, or of the one before it.

    Of the stages of a pipeline only those of the parameters that it `has`.

    Raises CheckpointError where there is none, it is damaged, or does not divide on this mesh;
    FileError where it cannot be read.
    """
    grid, rank = Grid(current().sizes), number()

    layouts: dict[str, ShardLayout] = {}

    def ours(name: str, layout: ShardLayout) -> Region | None:
        if not has(_parameter(name)):
            return None
        own = cuts.get(name, cuts.get(_parameter(name), ()))
        layouts[name] = ShardLayout(layout.shape, tuple((over, axis) for over, axis, *_ in own))
        try:
            return layouts[name].region(grid, rank, even=all(len(cut) == 2 for cut in own))
        except ValueError as error:
            raise CheckpointError(f"cannot resume {run} on this mesh: {name} {error}") from error

    found = load_regions(run, ours, previous=previous)
    params, slots = (
        {name: with_pads(part, layouts[name], grid) for name, part in arrays.items()}
        for arrays in (found.params, found.slots)
    )
    return replace(found, params=params, slots=slots)


def _slot_cuts(slots: Arrays, cuts: Mapping[str, RankCuts]) -> dict[str, RankCuts]:
    return {name: cuts.get(_parameter(name), ()) for name in slots}


def _parameter(slot: str) -> str:
    """Return the parameter of a slot: W for "m/W", Adam's first moment, and for "W" itself."""
    return slot.partition("/")[2] or slot


def _largest(value: int, grid: Grid) -> int:
    """The largest value of all ranks."""
    whole: Array = np.array(value)
    for axis in grid.sizes:
        whole = all_reduce_max(whole, axis)
    return int(whole)
