"""The arguments of `xg show --as dtensor`."""

from __future__ import annotations

from argparse import ArgumentParser
from pathlib import Path
from typing import Final

from xg.cli.arguments import Rule


def add_arguments(parser: ArgumentParser) -> None:
    """The module that a plan is for."""
    parser.add_argument(
        "--map",
        dest="names",
        metavar="NAMES",
        type=Path,
        help="with --as dtensor, a file with the names of your module's parameters; default: "
        "each module is named after its parameter",
    )


RULES: Final = (
    Rule(
        "--map",
        lambda options: options.form == "dtensor",
        "is about a module of yours: --as dtensor",
    ),
)
