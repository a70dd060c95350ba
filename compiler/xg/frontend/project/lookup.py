"""Paths of files: the project of a file, the shipped library, the file that a `use` names."""

from __future__ import annotations

import stat
from collections.abc import Mapping
from functools import cache
from pathlib import Path, PurePosixPath

from xg.diagnostics.diagnostic import Source, Span
from xg.diagnostics.limits import SourceBytes
from xg.frontend.errors import NotInLibrary, UseOutside, UseUnreadable
from xg.syntax import ast

PROJECT_MARKS = (".git", "pyproject.toml")
WRITTEN = (".svg", ".png", ".pdf", ".tex", ".dot", ".html", ".md", ".npz", ".safetensors")


class UnreadableFile(Exception):
    """A file that cannot be read, and why, in a few words."""


class MissingFile(UnreadableFile):
    """A file that is not there."""


@cache
def library() -> Path:
    """The folder of the shipped library: package data, or `diagrams/` of a checkout."""
    package = Path(__file__).resolve().parents[2]
    shipped = package / "library"
    return shipped if shipped.is_dir() else package.parents[1] / "diagrams"


LIBRARY_FOLDERS = ("notation", "models", "examples")


def library_files() -> tuple[Path, ...]:
    """The files of the shipped library: the notation's figures, then models, then examples."""
    return tuple(
        file for folder in LIBRARY_FOLDERS for file in sorted((library() / folder).glob("*.xg"))
    )


@cache
def common_ops() -> Path:
    """The file of ops that many models need, part of the package: `use Swish from common`."""
    return Path(__file__).resolve().parents[2] / "ops" / "common.xg"


def usable_files() -> Mapping[str, Path]:
    """Every file that `use` takes by a bare name: the shipped library, and the common ops."""
    return {file.stem: file for file in (*library_files(), common_ops())}


def library_file(name: str) -> Path | None:
    """Return the shipped file with this name, in any folder; None if no file has it."""
    return next((file for file in library_files() if file.stem == name), None)


def programs_of(folder: Path) -> tuple[str, ...]:
    """The names of the programs in a folder, without their ending; none where it is missing."""
    return tuple(sorted(file.stem for file in folder.glob("*.xg")))


def project_root(folder: Path) -> Path:
    """The nearest folder at or above `folder` (resolved) that holds a project, else `folder`."""
    for candidate in (folder, *folder.parents):
        if any((candidate / mark).exists() for mark in PROJECT_MARKS):
            return candidate
    return folder


def target(use: ast.Use, folder: Path, root: Path) -> Path:
    """The resolved path that a `use` names from a file in `folder`; raises Misplaced."""
    origin = use.origin
    if isinstance(origin, ast.Name):
        shipped = usable_files()
        if origin.name not in shipped:
            raise Misplaced(NotInLibrary(origin.span, origin.name, tuple(sorted(shipped))))
        return shipped[origin.name].resolve()
    return file_beside(origin, folder, root)


def file_beside(origin: ast.Text, folder: Path, root: Path) -> Path:
    """The resolved path that a text names from a file in `folder`; raises Misplaced."""
    written = origin.value
    if "\0" in written or "\\" in written or PurePosixPath(written).is_absolute():
        raise Misplaced(UseOutside(origin.span))
    try:
        path = (folder / written).resolve()
    except (OSError, RuntimeError) as error:  # a ring of links
        raise Misplaced(UseUnreadable(origin.span, _reason(error))) from None
    if not any(path.is_relative_to(allowed) for allowed in (root, library().resolve())):
        raise Misplaced(UseOutside(origin.span))
    return path


class Misplaced(Exception):
    """Carries the problem of a `use`, so that the next one is still looked up."""

    def __init__(self, problem: NotInLibrary | UseOutside | UseUnreadable) -> None:
        super().__init__(problem)
        self.problem = problem


def read(path: Path, name: str) -> Source:
    """The file as a source called `name`; raises Unfit, and DiagnosticError for a file too long.

    Pipes and devices are refused, because they may never end; `-` reads standard input.
    """
    try:
        status = path.stat()
        if stat.S_ISDIR(status.st_mode):
            raise UnreadableFile("it is a folder")
        if path.suffix in WRITTEN:
            raise UnreadableFile(f"a file {path.suffix} is no program: those are .xg files")
        if not stat.S_ISREG(status.st_mode):
            raise UnreadableFile("it is not an ordinary file")
        with path.open("rb") as file:
            data = file.read(SourceBytes.maximum + 1)
    except FileNotFoundError as error:
        raise MissingFile(_reason(error)) from None
    except (OSError, ValueError) as error:
        raise UnreadableFile(_reason(error)) from None
    if len(data) > SourceBytes.maximum:
        SourceBytes.check(max(len(data), status.st_size), Span(Source(name, ""), 0, 0))
    return Source.from_bytes(name, data)


def _reason(error: Exception) -> str:
    if isinstance(error, FileNotFoundError):
        return "there is no such file"
    return ((error.strerror if isinstance(error, OSError) else None) or str(error)).lower()
