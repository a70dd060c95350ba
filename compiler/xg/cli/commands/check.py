"""`xg check`: every error of every block, in every choice of options."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Final

from xg.cli.arguments import Rule, add_files, add_stdin_filename

EXAMPLE = "xg check transformer"


def add_arguments(parser: ArgumentParser) -> None:
    """Files, and whether to print errors as data."""
    add_files(parser)
    add_stdin_filename(parser)
    parser.add_argument("--strict", action="store_true", help="warnings count as errors")
    parser.add_argument(
        "--format",
        choices=("text", "json", "github", "sarif"),
        default="text",
        help="how errors are printed: for people, as data, as commands of a GitHub workflow, or "
        "as a SARIF log; default: text",
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
        "is of standard input: - in place of FILE",
    ),
)
