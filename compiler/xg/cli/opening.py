"""Open the file that a command names, build again when it changes, and report its errors."""

from __future__ import annotations

import sys
import time
from argparse import Namespace
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final
from urllib.parse import quote

from xg import __version__
from xg.cli.arguments import settings_of
from xg.cli.console import Console, json_text
from xg.cli.exits import FINE
from xg.diagnostics.diagnostic import (
    MISTAKES_AT_MOST,
    Diagnostic,
    DiagnosticData,
    DiagnosticError,
    as_data,
)
from xg.diagnostics.terminal import counted
from xg.frontend.choices import check_choices
from xg.frontend.project import (
    Project,
    UnreadableFile,
    named_file,
    parse_project,
    read,
    read_for_editor,
    read_project,
)
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


# Find the errors of a file for `xg check`, and print them as review tools read them.


def diagnostics_of(file: str, options: Namespace) -> tuple[Diagnostic, ...]:
    """The errors and warnings of a file, in every choice of options."""
    try:
        return findings(open_project(file, options.stdin_filename), options)
    except DiagnosticError as error:
        return error.diagnostics


def findings(project: Project, options: Namespace) -> tuple[Diagnostic, ...]:
    """The errors and warnings of a file that was read, in every choice of options."""
    try:
        return check_choices(project, options.block, settings_of(options), options.plan)
    except DiagnosticError as error:
        return error.diagnostics


def errors(diagnostics: Iterable[Diagnostic]) -> int:
    """How many of them are errors."""
    return sum(diagnostic.severity == "error" for diagnostic in diagnostics)


def summary(diagnostics: Sequence[Diagnostic]) -> str:
    """How many there are, in words."""
    mistakes = errors(diagnostics)
    warnings = len(diagnostics) - mistakes
    least = "at least " if mistakes >= MISTAKES_AT_MOST else ""
    said = least + counted(mistakes, "error") if mistakes else "ok"
    return f"{said}, {counted(warnings, 'warning')}" if warnings else said


# Errors and warnings as the tools of reviews read them: GitHub's commands, and SARIF.


Render = Callable[[Sequence[Diagnostic]], str]

_SCHEMA: Final = (
    "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
)


def _json(found: Sequence[Diagnostic]) -> str:
    return json_text({"diagnostics": [as_data(each) for each in found]})


def _github(found: Sequence[Diagnostic]) -> str:
    """A line for each, which a workflow's run shows at its line of the pull request."""
    return "".join(f"{_command(as_data(each))}\n" for each in found)


def _command(found: DiagnosticData) -> str:
    """`::error file=mlp.xg,line=3,col=8,title=XG0110::message`; a warning likewise."""
    last = found["end_column"]
    places: Mapping[str, object] = {
        "file": found["file"],
        "line": found["line"],
        "col": found["column"],
        "endColumn": last and last - 1,  # the last column, not the one behind it
        "title": found["code"],
    }
    given = (f"{name}={_property(str(place))}" for name, place in places.items() if place)
    return f"::{found['severity']} {','.join(given)}::{_escape(_message_text(found))}"


def _message_text(found: DiagnosticData) -> str:
    """The message, and what helps against it."""
    return "\n".join([found["message"], *(f"help: {help}" for help in found["help"])])


def _escape(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _escape(text).replace(":", "%3A").replace(",", "%2C")


def _sarif(found: Sequence[Diagnostic]) -> str:
    """One run of a log in SARIF 2.1.0."""
    driver = {
        "name": "xg",
        "version": __version__,
        "rules": [{"id": code} for code in sorted({each.code for each in found})],
    }
    results = [_result(as_data(each)) for each in found]
    run = {"tool": {"driver": driver}, "columnKind": "unicodeCodePoints", "results": results}
    return json_text({"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]})


def _result(found: DiagnosticData) -> Mapping[str, object]:
    result = {
        "ruleId": found["code"],
        "level": found["severity"],
        "message": {"text": _message_text(found)},
    }
    if found["file"] is None:
        return result
    region = {
        "startLine": found["line"],
        "startColumn": found["column"],
        "endColumn": found["end_column"],
    }
    place = {
        "artifactLocation": {"uri": quote(found["file"])},
        "region": {name: number for name, number in region.items() if number},
    }
    return {**result, "locations": [{"physicalLocation": place}]}


FORMATS: Final[Mapping[str, Render]] = {"json": _json, "github": _github, "sarif": _sarif}
