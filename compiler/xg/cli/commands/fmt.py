"""`xg fmt`: files in canonical layout."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Final

from xg.cli.arguments import Rule, XgFile, add_stdin_filename

EXAMPLE = "xg new tiny_gpt\nxg fmt tiny_gpt/tiny_gpt.xg"


def add_arguments(parser: ArgumentParser) -> None:
    """Files, to be laid out or only compared."""
    parser.add_argument(
        "files",
        metavar="FILE",
        type=XgFile,
        nargs="+",
        help="an .xg file; - is standard input, to standard output",
    )
    add_stdin_filename(parser)
    parser.add_argument(
        "--check", action="store_true", help="write nothing; exit 1 if a file would change"
    )


RULES: Final = (
    Rule(
        "--stdin-filename",
        lambda options: "-" in options.files,
        "is of standard input: - in place of FILE",
    ),
)
