"""`xg build`: a picture, or every figure, page and module, written all or nothing."""

from __future__ import annotations

import mimetypes
from argparse import Namespace
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

from xg.cli.arguments import settings_of
from xg.cli.backend_argument import KINDS, Kind
from xg.cli.console import Console
from xg.cli.exits import FINE, PROBLEM, USAGE
from xg.cli.opening import open_project, watch
from xg.cli.outputs import Outputs, TargetFolder, Wanted, named_picture, outputs_of, picture_of
from xg.diagnostics.diagnostic import Diagnostic, DiagnosticError
from xg.diagnostics.wording import counted
from xg.driver import View
from xg.figures.formats.pdf import Paper
from xg.figures.model.figure import NotTurned, TooNarrow
from xg.frontend.project import Project
from xg_runtime.files import write_all

ONE: Final = (".svg", ".pdf", ".png", ".tex", ".dot", ".html")  # files that are one picture
# That mimetypes does not know.
NEWER: Final = (".tikz", ".pgf", ".webp", ".gv", ".md", ".mmd", ".puml", ".drawio")
STANDARD_OUTPUT: Final = Path("-")
OUT: Final = Path("out")  # the folder for several files
LISTED_AT_MOST: Final = 20  # lines with the names of written files


def run(options: Namespace, console: Console) -> int:
    """Build once, or again and again."""
    try:
        return _run(options, console)
    except TooNarrow as error:
        fix = "leave --paper out" if options.paper else f"--width {error.inches:g}in"
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
        return _one(options, console)
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
        console.note("xg build: --watch needs files, and writes")
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
    by_file = _made(options, console)
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
        console.say_all(different)
        console.say(f"{counted(len(files) - len(different), 'file')} of {len(files)} up to date")
        return PROBLEM if different else FINE
    changed = target.write(files, None if is_picture else engines)
    for file, outputs in by_file.items():
        if is_picture:
            console.say_all(f"{file}: {folder / name}" for name in outputs.files)
            continue
        new = [name for name in outputs.files if name in changed]
        console.say(
            f"{file}: {counted(len(outputs.files), 'file')} in {folder}, {len(new)} changed"
        )
        console.say_all(_listing(new))
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


def _one(options: Namespace, console: Console) -> int:
    """Write one picture, to a file or to standard output."""
    suffix = options.folder.suffix.removeprefix(".")
    kinds = options.kinds or (suffix or "svg",)
    if len(options.files) != 1 or len(kinds) != 1 or (suffix and kinds != (suffix,)):
        console.note("xg build: one picture is of one FILE and of one kind: -o figure.svg")
        return USAGE
    if options.watch or options.check:
        console.note("xg build: --watch and --check are for folders: -o DIR")
        return USAGE
    outputs = picture_of(
        _opened(options.files[0], options), _wanted(options, kinds), _view(options)
    )
    for warning in outputs.warnings:
        console.note(f"warning: {warning}")
    (data,) = outputs.files.values()
    if suffix:
        write_all({options.folder: data})
        console.say(f"{options.files[0]}: {options.folder}")
    else:
        console.write_bytes(data)
    return FINE


def _opened(file: str, options: Namespace) -> Project:
    return open_project(file, options.stdin_filename)


def _view(options: Namespace) -> View:
    return options.view or "forward"


def _made(options: Namespace, console: Console) -> Mapping[str, Outputs]:
    """The outputs of every input; raises DiagnosticError with the errors of all of them."""
    only_svg: tuple[Kind, ...] = ("svg",)
    output_kinds = _wanted(options, options.kinds or (KINDS if options.every else only_svg))
    outputs: dict[str, Outputs] = {}
    mistakes: list[Diagnostic] = []
    files = [*dict.fromkeys(options.files)]
    for place, file in enumerate(files, 1):
        console.working(f"{place}/{len(files)} building {file}")
        try:
            project = _opened(file, options)
            if _is_picture(options):
                outputs[file] = named_picture(project, output_kinds, _view(options))
            else:
                outputs[file] = outputs_of(project, output_kinds)
        except DiagnosticError as error:
            mistakes += error.diagnostics
    if mistakes:
        raise DiagnosticError(mistakes)
    return outputs


def _wanted(options: Namespace, kinds: tuple[Kind, ...]) -> Wanted:
    return Wanted(
        kinds=kinds,
        theme=options.theme,
        legend=options.legend,
        title=not options.no_title,
        width=options.width,
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
