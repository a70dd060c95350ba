"""`xg verify`: the proofs, as a table or as data."""

from __future__ import annotations

from argparse import ArgumentParser

from xg.cli.arguments import add_files, add_kernels, add_ranks
from xg.cli.quantities import OneOrMore, natural
from xg.codegen.backend import backends

EXAMPLE = "xg verify diagrams/notation/mha.xg"
OTHERS = tuple(backends())[1:]  # beside the one that every proof runs
KINDS = ("fd", *OTHERS, "single", "exact", "document")


def add_arguments(parser: ArgumentParser) -> None:
    """Files, the kinds of proof, and the form of the answer."""
    add_files(parser)
    parser.add_argument(
        "--against",
        type=OneOrMore(KINDS),
        metavar="KIND,...",
        help=f"fd (finite differences), {', '.join(OTHERS)} (that code too, also at "
        "ties, zeros, lengths 0 and 1, and in narrow types), single (ranks against "
        "one device, under --plan or every plan of the file, and each collective taken away once), "
        "exact (the same over integers modulo primes), document (the claims of the file's "
        "examples); default: fd, with --plan single,exact, with --on processes single",
    )
    parser.add_argument(
        "--every-choice", action="store_true", help="of options, not only the defaults"
    )
    add_kernels(parser)
    parser.add_argument(
        "--seed", type=natural, default=0, help="draws parameters, inputs and dropout; default: 0"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    add_ranks(parser)
