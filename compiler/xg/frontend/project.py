"""The files of a program: each read and parsed once, with all that they `use`."""

from __future__ import annotations

import os
import posixpath
import stat
from collections.abc import Iterator, Mapping, Sequence
from functools import cache, lru_cache
from pathlib import Path, PurePosixPath

from xg.diagnostics.diagnostic import Diagnostic, DiagnosticError, Problem, Source, Span
from xg.diagnostics.lazy_dataclass import dataclass
from xg.diagnostics.limits import Blocks, Files, SourceBytes
from xg.frontend.errors import A_TEXT, NotInLibrary, Unreadable, UseCycle, UseOutside, UseUnreadable
from xg.ir.content import Recent
from xg.syntax import ast
from xg.syntax.parse import Parsed, parse_partly

# Paths of files: the project of a file, the shipped library, the file that a `use` names.


PROJECT_MARKS = (".git", "pyproject.toml")
WRITTEN = (".svg", ".png", ".pdf", ".tex", ".dot", ".html", ".md", ".npz", ".safetensors")


class UnreadableFile(Exception):
    """A file that cannot be read, and why, in a few words."""


class MissingFile(UnreadableFile):
    """A file that is not there."""


@cache
def library() -> Path:
    """The folder of the shipped library: package data, or `diagrams/` of a checkout."""
    package = Path(__file__).resolve().parents[1]
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
    return Path(__file__).resolve().parents[1] / "ops" / "common.xg"


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


STANDARD_INPUT = "<stdin>"
Place = Path | None  # of a file, resolved; None is standard input


class KnownFiles(Recent[tuple[Place, str, str], tuple[Source, Parsed]]):
    """Files that were read before, by their place, name and text."""


@dataclass(frozen=True, slots=True, eq=False)
class Project:
    """A parsed file and, transitively, the files it uses, with the paths of them all.

    `arrays` are the files that examples of the main file take numbers from, by their texts there.
    """

    main: ast.Module
    paths: tuple[Path, ...]
    uses: Mapping[tuple[Source, str], ast.Module]
    arrays: Mapping[str, Path]

    def __repr__(self) -> str:
        return f"<Project {', '.join(module.span.source.name for module in self.modules)}>"

    @property
    def modules(self) -> tuple[ast.Module, ...]:
        """Every file once, the main one first."""
        return tuple({id(module): module for module in (self.main, *self.uses.values())}.values())

    @property
    def files(self) -> tuple[Path, ...]:
        """Every file on which the meaning of the project depends."""
        return (*self.paths, *self.arrays.values())

    def load(self, use: ast.Use) -> ast.Module:
        """The file that a `use` of one of these files names."""
        return self.uses[_key(use)]

    def find(self, use: ast.Use) -> ast.Module | None:
        """The same, or None where that file could not be read."""
        return self.uses.get(_key(use))


@dataclass(frozen=True, slots=True, eq=False)
class Reading:
    """The readable part of a file, which may be half typed, and of the files it uses.

    `project` has the parts without errors (None if nothing of the main file can be read), `sources`
    the path of each text, `reached` the `use` of the main file that led to it.
    """

    project: Project | None
    sources: Mapping[Source, Place]
    reached: Mapping[Source, ast.Use]
    diagnostics: tuple[Diagnostic, ...]

    @property
    def whole(self) -> Project | None:
        """The project, if every file that it uses is there: then its blocks can be typed."""
        ended = any(each.code in (UseCycle.code, Blocks.code) for each in self.diagnostics)
        if self.project is None or ended:
            return None
        uses = [use for module in self.project.modules for use in module.uses]
        return self.project if all(map(self.project.find, uses)) else None


def read_project(path: str | os.PathLike[str]) -> Project:
    """Read a file and all that it uses; raises DiagnosticError with all that is wrong."""
    first, *more = os.fspath(path).splitlines() or [""]
    if more:
        raise DiagnosticError.of(Unreadable(f"{first[:40]} …", A_TEXT))
    file = named_file(path)
    name = Path(path).as_posix() if file == Path(path) else file.name
    try:
        source = read(file, name)
    except UnreadableFile as unfit:
        missing = isinstance(unfit, MissingFile)
        beside = programs_of(file.parent) if missing else ()
        shipped = library_names() if missing or _is_name(file) else ()
        raise DiagnosticError.of(Unreadable(name, str(unfit), beside, shipped)) from None
    return _ProjectReader({}).project(file.resolve(), source)


def named_file(path: str | os.PathLike[str]) -> Path:
    """The file of a path.

    A name without folder and ending that is no file here names one of the shipped library: `mha`;
    a folder of that name, as of downloaded weights, hides none.
    """
    file = Path(path)
    return (library_file(file.as_posix()) if _is_name(file) else None) or file


def _is_name(file: Path) -> bool:
    return "/" not in file.as_posix() and (file.is_dir() or not file.exists())


def library_names() -> tuple[str, ...]:
    """The names by which `use` takes the files of the shipped library."""
    return tuple(path.stem for path in library_files())


def usable_names() -> tuple[str, ...]:
    """The names after `from` that need no path."""
    return tuple(usable_files())


def parse_project(
    data: bytes,
    name: str = STANDARD_INPUT,
    known: KnownFiles | None = None,
    place: Place = None,
) -> Project:
    """The project of a text; it uses files as if it were at a place, or in the working folder."""
    return _ProjectReader({}, known).project(place, Source.from_bytes(name, data))


def read_for_editor(
    place: Place, source: Source, texts: Mapping[Path, str], known: KnownFiles | None = None
) -> Reading:
    """A project as an editor has it: `texts` replace the files at these (resolved) paths.

    Never fails: errors are part of the result. A file whose text is `known` is the same tree as
    before, with the same source.
    """
    reader = _ProjectReader(texts, known)
    reader.read(place, source)
    mistakes = tuple(reader.diagnostics)
    return Reading(reader.found(place), reader.sources, reader.first_uses(place), mistakes)


def _key(use: ast.Use) -> tuple[Source, str]:
    # A path keeps its quotes here, so it is never taken for a name of the library.
    return use.span.source, use.origin.span.text


def _parse_source(place: Place, source: Source) -> tuple[Source, Parsed]:
    shipped = place is not None and (
        place == common_ops() or place.is_relative_to(library().resolve())
    )
    if place is not None and shipped:
        return _parse_shipped_file(place, source.name, source.text)
    return source, parse_partly(source)


@lru_cache(64)  # somewhat more than there are: a process that reads many programs reads them often
def _parse_shipped_file(place: Path, name: str, text: str) -> tuple[Source, Parsed]:
    """A file of the shipped library, which one process parses once."""
    source = Source(name, text)
    return source, parse_partly(source)


class _ProjectReader:
    """Reads one project, breadth first, and continues after a file with errors."""

    def __init__(self, texts: Mapping[Path, str], known: KnownFiles | None = None) -> None:
        self.texts = texts
        self.known = KnownFiles() if known is None else known
        self.modules: dict[Place, ast.Module | None] = {}
        self.sources: dict[Source, Place] = {}
        self.arrows: dict[Place, dict[Place, ast.Use]] = {}
        self.uses: dict[tuple[Source, str], Place] = {}
        self.arrays: dict[str, Path] = {}
        self.waiting: list[tuple[Place, ast.Module]] = []
        self.diagnostics: list[Diagnostic] = []
        self.blocks = 0

    def project(self, place: Place, source: Source) -> Project:
        """The main file and everything below it; raises DiagnosticError with all errors."""
        self.read(place, source)
        project_read = self.found(place)
        if self.diagnostics or project_read is None:
            raise DiagnosticError(self.diagnostics)
        return project_read

    def read(self, place: Place, source: Source) -> None:
        """Read the main file and everything below it."""
        folder = place.parent if place else Path.cwd().resolve()
        root = project_root(folder)
        self._take(place, source)
        self._find_arrays(self.modules[place], folder, root)
        while self.waiting:
            user, module = self.waiting.pop(0)
            for use in module.uses:
                used_path = self._follow(use, user.parent if user else folder, root)
                if used_path is not None:
                    self.uses[_key(use)] = used_path
                    self.arrows.setdefault(user, {}).setdefault(used_path, use)
        self.diagnostics += [ring.diagnostic() for ring in self._rings(place)]

    def found(self, place: Place) -> Project | None:
        """The project, if anything was read of the main file."""
        modules = {place: module for place, module in self.modules.items() if module is not None}
        if place not in modules:
            return None
        paths = tuple(path for path in modules if path is not None)
        uses = {key: modules[file] for key, file in self.uses.items() if file in modules}
        return Project(modules[place], paths, uses, self.arrays)

    def first_uses(self, main: Place) -> dict[Source, ast.Use]:
        """For every used file the `use` of the main file that leads to it, if need be by others."""
        first: dict[Place, ast.Use] = {}
        for used, use in self.arrows.get(main, {}).items():
            pending = [used]
            while pending:
                place = pending.pop()
                if place != main and place not in first:
                    first[place] = use
                    pending += self.arrows.get(place, {})
        return {source: first[place] for source, place in self.sources.items() if place in first}

    def _take(self, place: Place, source: Source) -> None:
        key = (place, source.name, source.text)
        source, (module, mistakes) = self.known.get(key) or self.known.put(
            key, _parse_source(place, source)
        )
        self.sources[source] = place
        self.diagnostics += mistakes
        self.modules[place] = module
        if module is not None:
            self.waiting.append((place, module))
            self._count(module.blocks)

    def _count(self, blocks: Sequence[ast.Block]) -> None:
        left = Blocks.maximum - self.blocks
        self.blocks += len(blocks)
        if 0 <= left < len(blocks):
            self.diagnostics.append(Blocks(blocks[left].name.span, self.blocks).diagnostic())

    def _source(self, place: Path, name: str) -> Source:
        text = self.texts.get(place)
        return read(place, name) if text is None else Source(name, text)

    def _follow(self, use: ast.Use, folder: Path, root: Path) -> Path | None:
        """Read the used file, if it is new; return its place, None for an error."""
        problem: Problem
        try:
            path = target(use, folder, root)
            if path not in self.modules:
                Files.check(len(self.modules) + 1, use.span)
                self._take(path, self._source(path, _name(use)))
            return path
        except DiagnosticError as error:
            self.diagnostics += error.diagnostics
            return None
        except Misplaced as misplaced:
            problem = misplaced.problem
        except UnreadableFile as unfit:
            problem = UseUnreadable(use.origin.span, str(unfit))
        self.diagnostics.append(problem.diagnostic())
        return None

    def _find_arrays(self, main: ast.Module | None, folder: Path, root: Path) -> None:
        """Find the files of arrays that the examples name."""
        for stored in (
            (each for example in main.examples for each in example.stored) if main else ()
        ):
            try:
                path = file_beside(stored.file, folder, root)
                if not path.is_file():
                    raise Misplaced(UseUnreadable(stored.file.span, "there is no such file"))
                self.arrays[stored.file.value] = path
            except Misplaced as misplaced:
                self.diagnostics.append(misplaced.problem.diagnostic())

    def _rings(self, main: Place) -> Iterator[UseCycle]:
        """Every `use` that leads back to a file on the way to it."""
        trail: list[Place] = [main]
        pending = [iter(self.arrows.get(main, {}).items())]
        done: set[Place] = set()
        while pending:
            place, use = next(pending[-1], (None, None))
            if use is None:
                pending.pop()
                done.add(trail.pop())
            elif place in trail:
                names = [path.name for path in (*trail[trail.index(place) :], place) if path]
                yield UseCycle(use.origin.span, tuple(names))
            elif place not in done:
                trail.append(place)
                pending.append(iter(self.arrows.get(place, {}).items()))


def _name(use: ast.Use) -> str:
    """The name of a used file in messages: its path as seen from the working folder."""
    if isinstance(use.origin, ast.Name):
        return f"{use.origin.name}.xg"
    folder = PurePosixPath(use.span.source.name).parent
    return posixpath.normpath(folder / use.origin.value)
