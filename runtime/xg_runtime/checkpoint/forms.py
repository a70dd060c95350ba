"""The writer of each form of a checkpoint, and the reader of each."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from xg_runtime.checkpoint import manifest, part_files
from xg_runtime.checkpoint.manifest import Checkpoint, Form, Region, ShardLayout, Storage
from xg_runtime.errors import InputError


def storage_of(form: Form) -> Storage:
    """Return the writer of a form; raises InputError if it needs torch and torch is missing."""
    if form == "safetensors":
        return part_files.SAFETENSORS
    try:
        from xg_runtime.checkpoint import dcp  # needs torch
    except ImportError as error:
        raise InputError(
            "only torch writes checkpoints of torch: pip install 'xg[torch]'"
        ) from error
    return dcp.DCP


def read(folder: Path, wanted: Callable[[str, ShardLayout], Region | None]) -> Checkpoint:
    """Return the checkpoint in a folder, in whichever form it is.

    Raises ValueError if anything has changed or is missing; InputError where torch is.
    """
    is_torch = (folder / manifest.INDEX).is_file()
    contents = None
    if (folder / manifest.NAME).is_file() or not is_torch:
        contents = manifest.read(folder)
        is_torch = contents.form == "dcp"
    if contents and not is_torch:
        return part_files.read(folder, contents, wanted)
    try:
        from xg_runtime.checkpoint import dcp as dcp_reading  # needs torch
    except ImportError as error:
        raise InputError(
            "only torch reads checkpoints of torch: pip install 'xg[torch]'"
        ) from error
    return dcp_reading.read(folder, contents, wanted)
