"""Open the file that a command names, and build again when it changes."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from xg.cli.console import Console
from xg.cli.exits import FINE
from xg.diagnostics.diagnostic import DiagnosticError
from xg.frontend.project import Project, named_file, parse_project, read_for_editor, read_project
from xg.frontend.project.lookup import UnreadableFile, read
from xg.syntax import ast
from xg_runtime.errors import XgRuntimeError


def open_project(file: str, stdin_filename: str | None = None) -> Project:
    """Read a file, or standard input for ``-``, and all that it uses."""
    if file == "-":
        data = sys.stdin.buffer.read()
        if stdin_filename is None:
            return parse_project(data)
        return parse_project(data, stdin_filename, place=Path(stdin_filename).resolve())
    return read_project(file)


# Building again whenever a file changes.


PAUSE = 0.3  # seconds; short beside the time between two saves

Stamp = tuple[tuple[Path, int, int], ...]


def watch(files: Sequence[str], build: Callable[[], int], console: Console) -> int:
    """Build, and again after each save, until Ctrl-C. A file with errors leaves the last output."""
    console.note("watching; Ctrl-C ends")
    watched = [Watched(file) for file in dict.fromkeys(files)]
    try:
        while True:
            changed = [each.has_changes() for each in watched]
            if any(changed):
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


class Watched:
    """A file and all that it uses, in any folder.

    Of a file with errors every `.xg` file beside it too: a `use` that failed may name it. So are
    the files that it names, readable or not.
    """

    def __init__(self, file: str) -> None:
        self._file = file
        self._used: tuple[Path, ...] = ()
        self._folder: Path | None = None  # that is looked through
        self._seen: Stamp | None = None

    def has_changes(self) -> bool:
        """Whether any of them was saved since the last call; the first time, yes."""
        if self._stamp() == self._seen:
            return False
        try:
            self._used, self._folder = open_project(self._file).paths, None
        except DiagnosticError:
            self._used, self._folder = tuple(_used_files(self._file)), Path(self._file).parent
        self._seen = self._stamp()  # before anything is made of it: a save meanwhile is another
        return True

    def _stamp(self) -> Stamp:
        """When each file that may matter was changed, and its length."""
        beside = self._folder.glob("*.xg") if self._folder else ()
        stamp: list[tuple[Path, int, int]] = []
        for path in sorted({Path(self._file), *self._used, *beside}):
            try:
                status = path.stat()
            except OSError:
                continue
            stamp.append((path, status.st_mtime_ns, status.st_size))
        return tuple(stamp)


def _used_files(file: str) -> Iterator[Path]:
    """The files that a file with errors uses, in any folder, those too that are not there yet."""
    path = named_file(file)
    try:
        source = read(path, file)
    except (UnreadableFile, DiagnosticError):
        return
    reading = read_for_editor(path.resolve(), source, {})
    yield from filter(None, reading.sources.values())
    for module in reading.project.modules if reading.project else ():
        folder = reading.sources[module.span.source]
        for use in module.uses:
            if folder and isinstance(use.origin, ast.Text):
                yield folder.parent / use.origin.value
