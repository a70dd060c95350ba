"""Compare the files of a folder with its lock."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from xg.diagnostics.lazy_dataclass import replace
from xg.frontend.project import Project, read_project
from xg_runtime.errors import FileError
from xg_testing.differences import Changes, changes
from xg_testing.lockfile import EMISSIONS, NAME, Lock, read_lock, write_lock
from xg_testing.record import BlockLock, lock_project


def lock_of(file: Path) -> Path:
    """Return the lock beside a diagram."""
    return file.parent / NAME


def sibling_diagrams(lock: Path) -> list[str]:
    """Return the names of the diagrams in the folder of a lock."""
    return sorted(path.name for path in lock.parent.glob("*.xg"))


def check_project(project: Project, lock: Lock, folder: Path) -> Iterator[Changes]:
    """Yield the changes of every block of a file, and of recorded blocks that it lost."""
    present = sibling_diagrams(folder / NAME)
    found: list[BlockLock] = []
    for new in lock_project(project):
        old = lock.find(new, present)
        found += [old] if old is not None else []
        yield changes(lock, old, new)
    for (file, name), old in lock.blocks.items():
        if file == Path(project.main.span.source.name).name and old not in found:
            yield Changes(name, file, ("is gone from the file",))


def check_file(file: Path) -> Iterator[Changes]:
    """Yield the changes of one file; raises FileError if its folder has no lock."""
    lock = read_lock(lock_of(file))
    if lock is None:
        raise FileError(f"there is no {NAME} beside {file}: `xg lock {file}` writes one")
    yield from check_project(read_project(file), lock, file.parent)


def accept(files: Sequence[Path]) -> Iterator[tuple[Path, int, bool]]:
    """Write the locks of these files; yield each lock, its blocks, and whether it changed.

    The records of files in the folder that are not among these stay, those of removed files go.
    """
    folders: dict[Path, list[Path]] = {}
    for file in files:
        folders.setdefault(file.parent, []).append(file)
    for folder, mine in folders.items():
        path = folder / NAME
        old = read_lock(path) or Lock({})
        names = {file.name for file in mine}
        present = {*sibling_diagrams(path)} - names
        kept = {key: each for key, each in old.blocks.items() if key[0] in present}
        for file in mine:
            for block in lock_project(read_project(file)):
                kept[block.file, block.block] = block
        new = replace(old, blocks=kept, emission=len(EMISSIONS))
        yield path, len(kept), write_lock(path, new)
