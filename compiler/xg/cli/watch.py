"""Building again whenever a file changes."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path

from xg.cli.console import Console
from xg.cli.exits import FINE
from xg.diagnostics.diagnostic import DiagnosticError
from xg_runtime.errors import XgRuntimeError

PAUSE = 0.3  # seconds; short beside the time between two saves

Stamp = tuple[tuple[Path, int, int], ...]


def watch(files: Sequence[str], build: Callable[[], int], console: Console) -> int:
    """Build, and again after each save, until Ctrl-C. A file with mistakes leaves the last output.

    Every `.xg` file beside the named ones counts, for they may use it.
    """
    console.note("watching; Ctrl-C ends")
    built: Stamp | None = None
    try:
        while True:
            found = _stamp(files)
            if found != built:
                try:
                    build()
                except DiagnosticError as error:
                    console.diagnose(error.diagnostics)
                    console.note("the last good output stays")
                except XgRuntimeError as error:
                    console.note(f"xg: {error.message}")
                built = found
            time.sleep(PAUSE)
    except KeyboardInterrupt:
        return FINE


def _stamp(files: Sequence[str]) -> Stamp:
    """When each file that may matter was changed, and its length."""
    folders = dict.fromkeys(Path(file).parent for file in files)
    watched = dict.fromkeys(Path(file) for file in files)
    watched.update(dict.fromkeys(path for folder in folders for path in folder.glob("*.xg")))
    stamp: list[tuple[Path, int, int]] = []
    for path in sorted(watched):
        try:
            status = path.stat()
        except OSError:
            continue
        stamp.append((path, status.st_mtime_ns, status.st_size))
    return tuple(stamp)
