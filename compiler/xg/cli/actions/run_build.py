"""`xg build`: figures, pages and modules, written all or nothing."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Mapping

from xg.cli.arguments import settings_of
from xg.cli.console import Console
from xg.cli.exits import FINE, PROBLEM, USAGE
from xg.cli.opening import open_project
from xg.cli.target import Target
from xg.cli.watch import watch
from xg.diagnostics.diagnostic import Diagnostic, DiagnosticError
from xg.pages.outputs import KINDS, Outputs, Wanted, outputs_of


def run(options: Namespace, console: Console) -> int:
    """Build once, or again and again."""
    if not options.watch:
        return _build(options, console)
    if options.check or "-" in options.files:
        console.note("xg build: --watch needs files, and writes")
        return USAGE
    return watch(options.files, lambda: _build(options, console), console)


def _build(options: Namespace, console: Console) -> int:
    """Make everything in memory, then write or compare it."""
    made = _made(options)
    clash = _clash(made)
    if clash:
        console.note(f"xg build: {clash}")
        return USAGE
    for warning in (warning for outputs in made.values() for warning in outputs.warnings):
        console.note(f"warning: {warning}")
    files = {name: data for outputs in made.values() for name, data in outputs.files.items()}
    engines = sorted({engine for outputs in made.values() for engine in outputs.engines})
    target = Target(options.folder)
    if options.check:
        different = list(target.differences(files, engines))
        for line in different:
            console.say(line)
        console.say(f"{_counted(len(files) - len(different))} of {len(files)} up to date")
        return PROBLEM if different else FINE
    changed = target.write(files, engines)
    for file, outputs in made.items():
        new = sum(name in changed for name in outputs.files)
        console.say(f"{file}: {_counted(len(outputs.files))} in {options.folder}, {new} changed")
    return FINE


def _made(options: Namespace) -> Mapping[str, Outputs]:
    """The outputs of every input; raises DiagnosticError with the errors of all of them."""
    wanted = Wanted(
        kinds=options.kinds or KINDS,
        theme=options.theme,
        legend=options.legend,
        kernels=options.kernels,
        block=options.block,
        plan=options.plan,
        settings=settings_of(options),
    )
    made: dict[str, Outputs] = {}
    mistakes: list[Diagnostic] = []
    for file in dict.fromkeys(options.files):
        try:
            made[file] = outputs_of(open_project(file), wanted)
        except DiagnosticError as error:
            mistakes += error.diagnostics
    if mistakes:
        raise DiagnosticError(mistakes)
    return made


def _clash(made: Mapping[str, Outputs]) -> str:
    """Which two inputs would write the same file, if any."""
    owners: dict[str, str] = {}
    for file, outputs in made.items():
        for name in outputs.files:
            if owners.setdefault(name, file) != file:
                return f"{owners[name]} and {file} both write {name}: use two folders"
    return ""


def _counted(count: int) -> str:
    return "1 file" if count == 1 else f"{count} files"
