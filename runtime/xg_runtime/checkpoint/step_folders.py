"""The folders of a run's checkpoints: begun under another name, published by one rename."""

import contextlib
from collections.abc import Generator
from pathlib import Path
from typing import Final

from xg_runtime import files
from xg_runtime.checkpoint import manifest
from xg_runtime.checkpoint.manifest import Manifest

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
    files.write_and_sync(new / manifest.NAME, manifest.pack(contents))
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
