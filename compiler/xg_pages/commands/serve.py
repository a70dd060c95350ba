"""`xg serve`: figures, code and costs in the browser, new at each save."""

from __future__ import annotations

from argparse import ArgumentParser

from xg.cli.arguments import add_files, port

EXAMPLE = "xg serve mha --open"


def add_arguments(parser: ArgumentParser) -> None:
    """Files, and where they are shown."""
    add_files(parser)
    parser.add_argument(
        "--port", type=port, default=0, metavar="N", help="default: one that is free"
    )
    parser.add_argument("--open", action="store_true", help="open the page in your browser")
