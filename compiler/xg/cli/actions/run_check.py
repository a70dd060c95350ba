"""`xg check`: every error of every block, in every choice of options."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterable, Sequence

from xg.cli.arguments import settings_of
from xg.cli.console import Console
from xg.cli.exits import FILE_FAILED, FINE, PROBLEM, UNREADABLE
from xg.cli.opening import open_project
from xg.cli.render.json_text import json_text
from xg.diagnostics.diagnostic import MISTAKES_AT_MOST, Diagnostic, DiagnosticError, as_data
from xg.frontend.choices import check_choices


def run(options: Namespace, console: Console) -> int:
    """Check every file, and continue after one with errors."""
    all_diagnostics: list[Diagnostic] = []
    for file in options.files:
        diagnostics = _diagnostics(file, options)
        all_diagnostics += diagnostics
        if not options.json:
            console.judge(f"{file}: {_counted(diagnostics)}")
    if all_diagnostics:
        console.diagnose(all_diagnostics)
    if options.json:
        console.write(json_text({"diagnostics": [as_data(each) for each in all_diagnostics]}))
    if all_diagnostics and all(each.code == UNREADABLE for each in all_diagnostics):
        return FILE_FAILED
    return PROBLEM if _errors(all_diagnostics) or (options.strict and all_diagnostics) else FINE


def _diagnostics(file: str, options: Namespace) -> tuple[Diagnostic, ...]:
    try:
        project = open_project(file)
        return check_choices(project, options.block, settings_of(options), options.plan)
    except DiagnosticError as error:
        return error.diagnostics


def _errors(diagnostics: Iterable[Diagnostic]) -> int:
    return sum(diagnostic.severity == "error" for diagnostic in diagnostics)


def _counted(diagnostics: Sequence[Diagnostic]) -> str:
    errors = _errors(diagnostics)
    warnings = len(diagnostics) - errors
    least = "at least " if errors >= MISTAKES_AT_MOST else ""
    said = {0: "ok", 1: "1 error"}.get(errors, f"{least}{errors} errors")
    return said + {0: "", 1: ", 1 warning"}.get(warnings, f", {warnings} warnings")
