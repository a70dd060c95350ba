"""The findings of `xg check` in a file."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterable, Sequence

from xg.cli.arguments import settings_of
from xg.cli.opening import open_project
from xg.diagnostics.diagnostic import MISTAKES_AT_MOST, Diagnostic, DiagnosticError
from xg.diagnostics.wording import counted
from xg.frontend.choices import check_choices
from xg.frontend.project import Project


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
