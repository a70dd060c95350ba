"""`xg ops`: the table of operators."""

from __future__ import annotations

from argparse import ArgumentParser
from pathlib import Path
from typing import Final

from xg.cli.arguments import Rule

EXAMPLE = "xg ops softmax"


def add_arguments(parser: ArgumentParser) -> None:
    """All operators, or one."""
    parser.add_argument("name", metavar="NAME", nargs="?", help="an operator: S, softmax, • or @")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.add_argument(
        "--figure",
        metavar="FILE",
        type=Path,
        help="draw the notation instead: .svg, .pdf, .png, .tex or .dot",
    )


RULES: Final = (
    Rule(
        "--figure",
        lambda options: options.name is None and not options.json,
        "draws the whole notation: leave NAME and --json out",
    ),
)
