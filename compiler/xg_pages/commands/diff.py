"""`xg diff`: what two compilations differ in, and what that costs."""

from __future__ import annotations

from argparse import ArgumentParser
from pathlib import Path

from xg.cli.arguments import FILE_HELP, Diagram, add_choice

EXAMPLE = "xg diff transformer --block Attention --plan TP -o tp.svg"


def add_arguments(parser: ArgumentParser) -> None:
    """One file or two, under which plans, and where the figure goes."""
    parser.add_argument("file", metavar="FILE", type=Diagram, help=FILE_HELP)
    parser.add_argument(
        "other",
        metavar="NEW",
        type=Diagram,
        nargs="?",
        help="another version of it; FILE is then the old one",
    )
    add_choice(parser)
    parser.add_argument(
        "--against",
        metavar="NAME",
        help="the plan of what --plan is compared with; by default one device, with two files "
        "the same plan",
    )
    parser.add_argument(
        "-o",
        dest="figure",
        metavar="FIGURE",
        type=Path,
        help="also draw the forward figure, with what is new, changed and gone: "
        ".svg, .png, .pdf, .tex or .dot",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON document")
