"""`xg explain`: a diagram with numbers as a page to read."""

from __future__ import annotations

from argparse import ArgumentParser
from pathlib import Path

from xg.cli.arguments import add_file

EXAMPLE = "xg explain diagrams/examples/cat_sleeps.xg -o cat_sleeps.html"


def add_arguments(parser: ArgumentParser) -> None:
    """A file, whose numbers, and where the page goes."""
    add_file(parser, plans=False)
    parser.add_argument(
        "-o",
        dest="out",
        metavar="PAGE",
        type=Path,
        help=".html or .md; without it Markdown is printed",
    )
    parser.add_argument(
        "--example", metavar="TITLE", help="the example whose numbers are shown; default: the first"
    )
    parser.add_argument(
        "--seed",
        type=int,
        metavar="N",
        help="draw the numbers from N, where no example is wanted; 0 for a file without examples",
    )
