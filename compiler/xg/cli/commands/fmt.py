"""`xg fmt`: files in canonical layout.

Line breaks stay where the author put them: a chain breaks where its figure does, and no rule knows
that place. Columns are shared per block, because columns per paragraph look ragged.
"""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import Final

from xg.cli.arguments import Rule, XgFile, add_stdin_filename
from xg.cli.console import Console
from xg.cli.exits import FINE, PROBLEM
from xg.diagnostics.diagnostic import DiagnosticError, Source
from xg.frontend.project import STANDARD_INPUT

EXAMPLE = "xg new tiny_gpt\nxg fmt tiny_gpt/tiny_gpt.xg"


def add_arguments(parser: ArgumentParser) -> None:
    """Files, to be laid out or only compared."""
    parser.add_argument(
        "files",
        metavar="FILE",
        type=XgFile,
        nargs="+",
        help="an .xg file, or - to format standard input to standard output",
    )
    add_stdin_filename(parser)
    parser.add_argument(
        "--check", action="store_true", help="write nothing; exit 1 if a file would change"
    )


RULES: Final = (
    Rule(
        "--stdin-filename",
        lambda options: "-" in options.files,
        "names standard input: write - in place of FILE",
    ),
)


def run(options: Namespace, console: Console) -> int:
    """Lay out every file, and continue after one with errors."""
    worst = FINE
    for file in options.files:
        try:
            code = (
                _standard_input(options, console) if file == "-" else _file(file, options, console)
            )
        except DiagnosticError as error:
            console.diagnose(error.diagnostics)
            code = PROBLEM
        worst = max(worst, code)
    return worst


def _standard_input(options: Namespace, console: Console) -> int:
    from xg.syntax.format import format

    name = options.stdin_filename or STANDARD_INPUT
    source = Source.from_bytes(name, sys.stdin.buffer.read())
    text = format(source)
    if not options.check:
        console.write(text)
        return FINE
    return _report_difference(name, text == source.text, console)


def _file(file: str, options: Namespace, console: Console) -> int:
    from xg.syntax.format import format
    from xg_runtime import files

    path = Path(file)
    data = files.read(path)
    text = format(Source.from_bytes(path.as_posix(), data))
    same = text.encode() == data
    if options.check:
        return _report_difference(file, same, console)
    if not same:
        files.write(path, text.encode())
        console.say(f"laid out {file}")
    return FINE


def _report_difference(name: str, same: bool, console: Console) -> int:
    if same:
        return FINE
    console.say(f"would lay out {name}")
    return PROBLEM
