"""Files written whole or not at all.

    write(path, data)                      one file; data are bytes, or pieces of them
    write_all({path: data}, ours=None)     a set: on any error every old file is back in place

Each file is written beside its target under a temporary name, flushed to disk, and renamed over
it, so a reader (or a kill) meets the old bytes or the new ones. A name left behind by a killed
process is removed by the next write into that folder. Errors are `FileError`.
"""

import contextlib
import os
import re
from collections.abc import Callable, Generator, Iterator, Mapping
from pathlib import Path
from typing import Final

from xg_runtime.errors import FileError

Content = bytes | Iterator[bytes]

_LEFTOVER: Final = re.compile(r"\..*\.(\d+)\.xg-(?:new|old)")


def read(path: Path) -> bytes:
    """Return the bytes of `path`; raises FileError."""
    with file_errors("read"):
        refuse_special(path)
        return path.read_bytes()


def refuse_special(path: Path) -> None:
    """Raise FileError for a pipe, a socket or a device, which may never end."""
    if path.exists() and not path.is_file() and not path.is_dir():
        raise FileError(f"cannot read {path}: it is not an ordinary file")


def write(path: Path, data: Content) -> None:
    """Write one file atomically, creating its folder; raises FileError."""
    write_files({path: data})


def write_files(files: Mapping[Path, Content], ours: Callable[[Path], bool] | None = None) -> None:
    """Write every file, or none.

    `ours` says whether an existing file may be replaced; the first that may not is a FileError, and
    then nothing was touched. A kill between two renames leaves each file whole, some new.
    """
    with file_errors("write"):
        for path in files:
            _refuse(path, ours)
        for folder in dict.fromkeys(path.parent for path in files):
            folder.mkdir(parents=True, exist_ok=True)
            remove_leftovers(folder)
        with contextlib.ExitStack() as cleanup:
            for path, data in files.items():
                cleanup.callback(temporary_path(path, "new").unlink, missing_ok=True)
                with _naming(path):
                    write_and_sync(temporary_path(path, "new"), data)
            _replace_files(list(files))
        for folder in dict.fromkeys(path.parent for path in files):
            sync_folder(folder)


@contextlib.contextmanager
def _naming(path: Path) -> Generator[None]:
    """Put this file's path into errors: a full disk names no file, others a temporary one."""
    try:
        yield
    except OSError as error:
        raise OSError(error.errno, error.strerror or str(error), str(path)) from error


def write_and_sync(path: Path, data: Content) -> None:
    """Write a file that must not be there yet and flush it to disk; raises OSError."""
    with path.open("xb") as file:
        for piece in (data,) if isinstance(data, bytes) else data:
            file.write(piece)
        file.flush()
        os.fsync(file.fileno())


def sync_folder(folder: Path) -> None:
    """Flush the names in `folder` to disk, where the system has such a thing."""
    if os.name != "posix":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def remove_leftovers(folder: Path) -> None:
    """Remove temporary names in `folder` whose process is gone."""
    for path in list(folder.iterdir()):
        match = _LEFTOVER.fullmatch(path.name)
        if match and not _alive(int(match[1])):
            if path.is_dir() and not path.is_symlink():
                _empty(path)
            else:
                path.unlink(missing_ok=True)


def remove_folder(folder: Path) -> None:
    """Remove a folder of plain files, in one moment as far as its name goes."""
    gone = temporary_path(folder, "old")
    folder.rename(gone)
    _empty(gone)


def _empty(folder: Path) -> None:
    for path in list(folder.iterdir()):
        path.unlink()
    folder.rmdir()


def _replace_files(paths: list[Path]) -> None:
    """Rename every new file over its target; undo all of it if one rename fails."""
    begun: list[Path] = []
    try:
        for path in paths:
            begun.append(path)
            _keep_old(path)
            temporary_path(path, "new").replace(path)
    except BaseException:
        for path in begun:
            _put_back(path)
        raise
    with contextlib.ExitStack() as cleanup:  # one that fails keeps no other from going
        for path in begun:
            cleanup.callback(temporary_path(path, "old").unlink, missing_ok=True)


def _keep_old(path: Path) -> None:
    """Give the file at `path` a second name, without a moment in which it has none."""
    old = temporary_path(path, "old")
    old.unlink(missing_ok=True)
    if path.is_symlink():
        old.symlink_to(path.readlink())
    elif path.exists():
        try:
            os.link(path, old)
        except OSError:  # a file system without hard links
            write_and_sync(old, path.read_bytes())


def _put_back(path: Path) -> None:
    old = temporary_path(path, "old")
    if os.path.lexists(old):
        old.replace(path)
        old.unlink(missing_ok=True)  # renaming a file over its own other name does nothing
    elif not temporary_path(path, "new").exists():
        path.unlink(missing_ok=True)


def _refuse(path: Path, ours: Callable[[Path], bool] | None) -> None:
    """Raise unless `path` is free, or an ordinary file that may be replaced."""
    if not path.exists():
        return
    if not path.is_file():
        raise FileError(f"cannot write {path}: it is there and not an ordinary file")
    if ours is not None and not ours(path):
        raise FileError(f"cannot write {path}: it is there and xg did not make it")


def temporary_path(path: Path, kind: str, process: int | None = None) -> Path:
    """Return the temporary name of a process, this one, for `path`; `_LEFTOVER` reads it back."""
    return path.with_name(f".{path.name}.{process or os.getpid()}.xg-{kind}")


def _alive(pid: int) -> bool:
    """Return whether another process of that number may still be running."""
    if pid == os.getpid():
        return False  # an earlier one: in a container numbers repeat
    if os.name != "posix":
        return True  # no harmless way to ask
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        return True
    return True


@contextlib.contextmanager
def file_errors(doing: str) -> Generator[None]:
    """Turn an OSError inside into a FileError: "cannot read a/b.txt: permission denied"."""
    try:
        yield
    except OSError as error:
        name = f" {error.filename}" if error.filename else ""
        reason = (error.strerror or str(error)).lower()
        raise FileError(f"cannot {doing}{name}: {reason}") from error
