"""The files around an open one that use it: in the folder of its project, and not hidden."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from xg.diagnostics.diagnostic import DiagnosticError
from xg.diagnostics.lazy_dataclass import dataclass
from xg.diagnostics.source import Source
from xg.frontend.project import KnownFiles, read_edited
from xg.frontend.project.lookup import UnreadableFile, library, project_root, read
from xg_editor.meaning.declared import ProjectNames
from xg_editor.meaning.occurrences import Occurrences

FILES_AT_MOST = 2_000
_USE = re.compile(r"^[ \t]*use\b[^#\n]*\bfrom\s+(?:\"([^\"\n]*)\"|(\w+))", re.MULTILINE)
_BUILT = {"node_modules", "build", "dist", "__pycache__"}


@dataclass(frozen=True, slots=True)
class KnownFile:
    """The names of files that a file on disk uses, as of its last change."""

    stamp: tuple[int, int]
    uses: frozenset[str]


class Workspace:
    """The files of a project's folder and their uses; each is read again when it has changed."""

    def __init__(self) -> None:
        self._known: dict[Path, KnownFile] = {}
        self._programs: dict[Path, Occurrences] = {}
        self.parsed = KnownFiles()

    def programs(self, own: Occurrences, texts: Mapping[Path, str]) -> list[Occurrences]:
        """A program, and those of the files around it that share a file with it.

        Args:
            own: the program of an open text.
            texts: the texts that are open, by their paths.
        """
        self.parsed.next_round()
        programs = [own]
        main = own.path(own.names.project.main.span.source)
        if main is None:
            return programs
        uses = self._uses(project_root(main.parent), texts)
        shared = {path for path in own.reading.sources.values() if path}
        done = {main}
        while waiting := [path for path in _users(uses, shared) if path not in done]:
            for path in waiting:
                done.add(path)
                program = self._program(path, texts)
                if program and shared & set(program.reading.sources.values()):
                    programs.append(program)
                    shared.add(path)
        self._programs = {path: each for path, each in self._programs.items() if path in done}
        return programs

    def _program(self, path: Path, texts: Mapping[Path, str]) -> Occurrences | None:
        """The program of a file, the same as before where nothing of it has changed."""
        text = texts.get(path)
        try:
            source = read(path, path.name) if text is None else Source(path.name, text)
        except (UnreadableFile, DiagnosticError):
            return None
        reading = read_edited(path, source, texts, self.parsed)
        if reading.project is None:
            return None
        known = self._programs.get(path)
        if known is None or known.reading.sources.keys() != reading.sources.keys():
            known = self._programs[path] = Occurrences(reading, ProjectNames(reading.project))
        return known

    def _uses(self, root: Path, texts: Mapping[Path, str]) -> dict[Path, frozenset[str]]:
        found: dict[Path, frozenset[str]] = {}
        for path, stamp in _files(root):
            known = self._known.get(path)
            if path in texts:
                found[path] = _used(texts[path])
                continue
            if known is None or known.stamp != stamp:
                try:
                    text = read(path, path.name).text
                except (UnreadableFile, DiagnosticError):  # it uses nothing that anybody knows
                    text = ""
                known = self._known[path] = KnownFile(stamp, _used(text))
            found[path] = known.uses
        for gone in self._known.keys() - found.keys():
            del self._known[gone]
        return found


def is_shipped(path: Path) -> bool:
    """Whether a file is one of the installed library, which is never edited."""
    folder = library().resolve()
    return path.is_relative_to(folder) and project_root(folder) == folder


def _users(uses: Mapping[Path, frozenset[str]], shared: set[Path]) -> list[Path]:
    stems = {path.stem for path in shared}
    return [path for path, used in uses.items() if used & stems]


def _used(text: str) -> frozenset[str]:
    return frozenset(Path(path).stem if path else name for path, name in _USE.findall(text))


def _files(root: Path) -> Iterator[tuple[Path, tuple[int, int]]]:
    """The `.xg` files below a folder and when each was changed, hidden folders left out."""
    count = 0
    waiting = [str(root)]
    while waiting and count < FILES_AT_MOST:
        try:
            entries = list(os.scandir(waiting.pop()))
        except OSError:
            continue
        for entry in entries:
            if entry.name.startswith(".") or entry.name in _BUILT:
                continue
            if entry.is_dir(follow_symlinks=False):
                waiting.append(entry.path)
            elif entry.name.endswith(".xg"):
                status = entry.stat()
                count += 1
                yield Path(entry.path), (status.st_mtime_ns, status.st_size)
