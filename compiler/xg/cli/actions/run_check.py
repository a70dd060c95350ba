"""`xg check`: every error of every block, in every choice of options."""

from __future__ import annotations

from argparse import Namespace

from xg.cli.checking import diagnostics_of, errors, summary
from xg.cli.console import Console
from xg.cli.exits import FILE_FAILED, FINE, PROBLEM, UNREADABLE
from xg.cli.render.json_text import json_text
from xg.diagnostics.diagnostic import Diagnostic, as_data


def run(options: Namespace, console: Console) -> int:
    """Check every file, and continue after one with errors."""
    all_diagnostics: list[Diagnostic] = []
    for file in options.files:
        diagnostics = diagnostics_of(file, options)
        all_diagnostics += diagnostics
        if not options.json:
            console.judge(f"{file}: {summary(diagnostics)}")
    if all_diagnostics:
        console.diagnose(all_diagnostics)
    if options.json:
        console.write(json_text({"diagnostics": [as_data(each) for each in all_diagnostics]}))
    if all_diagnostics and all(each.code == UNREADABLE for each in all_diagnostics):
        return FILE_FAILED
    return PROBLEM if errors(all_diagnostics) or (options.strict and all_diagnostics) else FINE
