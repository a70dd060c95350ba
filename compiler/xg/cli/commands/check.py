"""`xg check`: every error of every block, in every choice of options."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import Final

from xg.cli.arguments import Rule, add_files, add_stdin_filename
from xg.cli.console import Console
from xg.cli.exits import FILE_FAILED, FINE, PROBLEM, UNREADABLE
from xg.diagnostics.diagnostic import Diagnostic

EXAMPLE = "xg check transformer"


def add_arguments(parser: ArgumentParser) -> None:
    """Files, and whether to print errors as data."""
    add_files(parser)
    add_stdin_filename(parser)
    parser.add_argument("--strict", action="store_true", help="treat warnings as errors")
    parser.add_argument(
        "--format",
        choices=("text", "json", "github", "sarif"),
        default="text",
        help="how to print errors: for people (text), as data (json), for a GitHub workflow "
        "(github) or as a SARIF log (sarif); default: text",
    )
    parser.add_argument(
        "--json",
        action="store_const",
        dest="format",
        const="json",
        help="the same as --format json",
    )


RULES: Final = (
    Rule(
        "--stdin-filename",
        lambda options: "-" in options.files,
        "names standard input: write - in place of FILE",
    ),
)


def run(options: Namespace, console: Console) -> int:
    """Check every file, and continue after one with errors."""
    from xg.cli.opening import FORMATS, diagnostics_of, errors, summary

    all_diagnostics: list[Diagnostic] = []
    for file in options.files:
        diagnostics = diagnostics_of(file, options)
        all_diagnostics += diagnostics
        if options.format not in FORMATS:
            console.judge(f"{file}: {summary(diagnostics)}")
    if all_diagnostics:
        console.diagnose(all_diagnostics)
    if options.format in FORMATS:
        console.write(FORMATS[options.format](all_diagnostics))
    if all_diagnostics and all(each.code == UNREADABLE for each in all_diagnostics):
        return FILE_FAILED
    return PROBLEM if errors(all_diagnostics) or (options.strict and all_diagnostics) else FINE
