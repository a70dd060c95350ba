"""Building again whenever a file changes."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from xg.cli.console import Console
from xg.cli.exits import FINE
from xg.cli.opening import open_project
from xg.diagnostics.diagnostic import DiagnosticError
from xg_runtime.errors import XgRuntimeError

PAUSE = 0.3  # seconds; short beside the time between two saves

Stamp = tuple[tuple[Path, int, int], ...]


def watch(files: Sequence[str], build: Callable[[], int], console: Console) -> int:
    """Build, and again after each save, until Ctrl-C. A file with errors leaves the last output.

    Every file that the named ones use is watched, in any folder, and every `.xg` file beside them:
    a `use` that failed may name it.
    """
    console.note("watching; Ctrl-C ends")
    built: Stamp | None = None
    used: dict[str, tuple[Path, ...]] = {}
    try:
        while True:
            if _stamp(files, used) != built:
                used |= {file: paths for file in files if (paths := _used(file))}
                built = _stamp(files, used)  # before building: a save meanwhile is another
                try:
                    build()
                except DiagnosticError as error:
                    console.diagnose(error.diagnostics)
                    console.note("the last good output stays")
                except XgRuntimeError as error:
                    console.note(f"xg: {error.message}")
            time.sleep(PAUSE)
    except KeyboardInterrupt:
        return FINE


def _used(file: str) -> tuple[Path, ...]:
    """The file and all that it uses; nothing while it has errors."""
    try:
        return open_project(file).paths
    except DiagnosticError:
        return ()


def _stamp(files: Sequence[str], used: Mapping[str, tuple[Path, ...]]) -> Stamp:
    """When each file that may matter was changed, and its length."""
    folders = dict.fromkeys(Path(file).parent for file in files)
    watched = dict.fromkeys(Path(file) for file in files)
    watched.update(dict.fromkeys(path for paths in used.values() for path in paths))
    watched.update(dict.fromkeys(path for folder in folders for path in folder.glob("*.xg")))
    stamp: list[tuple[Path, int, int]] = []
    for path in sorted(watched):
        try:
            status = path.stat()
        except OSError:
            continue
        stamp.append((path, status.st_mtime_ns, status.st_size))
    return tuple(stamp)
