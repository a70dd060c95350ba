"""`xg plan`: find the fastest plan for your ranks and their memory, and say why others lose."""

from __future__ import annotations

from argparse import ArgumentParser, ArgumentTypeError, Namespace
from pathlib import Path
from typing import Final

from xg.cli.arguments import Rule, add_file, amount, positive
from xg.cli.console import Console
from xg.syntax.spelling import ascii_name

EXAMPLE = "xg plan mlp --ranks 4 --memory 1MB --set B=64 --set S=32"
UNITS: Final = {"KB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12}
UNITS_OF_TWO: Final = {"KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}


def add_arguments(parser: ArgumentParser) -> None:
    """A file, the ranks and what each has, and where the winner is written."""
    add_file(parser, plans=False)
    parser.add_argument(
        "--ranks",
        type=positive,
        required=True,
        metavar="N",
        help="number of ranks; a batch size from --set is for all of them together",
    )
    parser.add_argument(
        "--memory",
        type=memory,
        required=True,
        metavar="BYTES",
        help="memory of each rank: 80GB, 141GiB",
    )
    _add_machine(parser)
    parser.add_argument(
        "--write", type=ascii_name, metavar="NAME", help="add the best plan to FILE under this name"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def _add_machine(parser: ArgumentParser) -> None:
    """The rates of a rank, and what is near it."""
    parser.add_argument(
        "--dtype",
        choices=("float32", "float64", "bfloat16"),
        default="float32",
        help="type of floats; default: float32",
    )
    parser.add_argument(
        "--node", type=positive, default=8, metavar="N", help="ranks per node; default: 8"
    )
    parser.add_argument(
        "--machine",
        default="h100",
        metavar="NAME",
        help="the machine of a node, from the table; default: h100",
    )
    parser.add_argument(
        "--between",
        metavar="NAME",
        help="the network between nodes, from the table; default: MACHINE-network if the "
        "table has it",
    )
    parser.add_argument(
        "--hardware",
        metavar="FILE",
        type=Path,
        help="a TOML table of machines; default: the table in xg",
    )


def memory(text: str) -> float:
    """``80GB``, ``141GiB``, or a number of bytes."""
    for unit, size in {**UNITS, **UNITS_OF_TWO}.items():
        if text.upper().endswith(unit.upper()) and ("i" in text[-3:]) == ("i" in unit):
            return amount(text[: -len(unit)].strip()) * size
    try:
        return amount(text)
    except ArgumentTypeError:
        raise ArgumentTypeError(
            f"{text!r} is not an amount of memory, such as 80GB, 141GiB or a number of bytes"
        ) from None


RULES: Final = (
    Rule(
        "--between",
        lambda options: options.ranks > options.node,
        "needs several nodes: make --ranks larger than --node",
    ),
)


def run(options: Namespace, console: Console) -> int:
    """Search the quickest plan."""
    from xg.cli.plan_search import search

    return search(options, console)
