"""`xg check`: every error of every block, in every choice of options."""

from __future__ import annotations

from argparse import Namespace

from xg.cli.checking import FORMATS, diagnostics_of, errors, summary
from xg.cli.console import Console
from xg.cli.exits import FILE_FAILED, FINE, PROBLEM, UNREADABLE
from xg.diagnostics.diagnostic import Diagnostic


def run(options: Namespace, console: Console) -> int:
    """Check every file, and continue after one with errors."""
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
