"""A plan as the calls of torch that divide a module of somebody's own: `parallelize_module` and
`fully_shard`. `torch_calls.source` writes them.

The placed program is read, not the lines of the plan: it has every layout that torch wants, and is
proven. Everything else is refused, so that no call silently computes something else.

The arguments of `xg show --as dtensor` are here.
"""

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
