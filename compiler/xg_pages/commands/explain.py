"""`xg explain`: a diagram with numbers as a page to read."""

from __future__ import annotations

from argparse import ArgumentParser
from pathlib import Path
from typing import Final

from xg.cli.arguments import FileOrName, Rule, add_file, gives, natural

EXAMPLE = "xg explain cat_sleeps -o cat_sleeps.html"


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
        "--text",
        metavar="TEXT",
        help="what goes in; its words stand beside the numbers that are about them",
    )
    parser.add_argument(
        "--tokenizer",
        metavar="T",
        type=FileOrName,
        help="of --text: a tokenizer.json, bytes or characters; default: words between blanks",
    )
    parser.add_argument(
        "--seed",
        type=natural,
        metavar="N",
        help="draw the numbers from N, where no example is wanted; 0 for a file without examples",
    )


RULES: Final = (Rule("--tokenizer", gives("text"), "cuts a --text into tokens"),)
