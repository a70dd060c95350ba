"""`xg check`: every mistake of every block, in every choice of options."""

from __future__ import annotations

from argparse import ArgumentParser

from xg.cli.arguments import add_files

EXAMPLE = "xg check diagrams/models/transformer.xg"


def add_arguments(parser: ArgumentParser) -> None:
    """Files, and the mistakes as data."""
    add_files(parser)
    parser.add_argument("--json", action="store_true", help="print the mistakes as JSON")
