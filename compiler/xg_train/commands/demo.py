"""`xg demo`: everything once, on the bundled diagrams."""

from __future__ import annotations

from argparse import ArgumentParser
from pathlib import Path

from xg.cli.arguments import Shipped, positive

EXAMPLE = "xg demo"


def add_arguments(parser: ArgumentParser) -> None:
    """Where it goes, and how long it trains."""
    parser.add_argument(
        "-o",
        "--out",
        dest="folder",
        metavar="DIR",
        type=Path,
        default=Path("out/demo"),
        help="default: out/demo",
    )
    parser.add_argument(
        "--steps", type=positive, default=300, metavar="N", help="of training; default: 300"
    )
    parser.add_argument(
        "names",
        metavar="NAME",
        type=Shipped,
        nargs="*",
        help="some diagrams of the library; default: all",
    )
    parser.set_defaults(threads=None)
