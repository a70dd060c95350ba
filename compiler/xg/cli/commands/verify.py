"""`xg verify`: the proofs, as a table or as data."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import Final

from xg.cli.arguments import (
    OTHERS,
    OneOrMore,
    Rule,
    add_files,
    add_kernels,
    add_ranks,
    natural,
    on_processes,
)
from xg.cli.console import Console

EXAMPLE = "xg verify mha"
RANKS: Final = frozenset({"single", "exact"})
KINDS = ("fd", *OTHERS, "single", "exact", "document")


def add_arguments(parser: ArgumentParser) -> None:
    """Files, the kinds of proof, and the form of the answer."""
    add_files(parser)
    parser.add_argument(
        "--against",
        type=OneOrMore(KINDS),
        metavar="KIND,...",
        help=f"what to compare with: fd (finite differences), {', '.join(OTHERS)} (that code, also "
        "at ties, zeros, lengths 0 and 1, and in narrow types), single (ranks against one device, "
        "and each collective left out once), exact (ranks over integers modulo primes), document "
        "(the examples of the file); default: fd; with --plan single,exact; with --on processes "
        "single",
    )
    parser.add_argument(
        "--every-choice",
        action="store_true",
        help="verify every choice of options, not only the defaults",
    )
    add_kernels(parser)
    parser.add_argument(
        "--seed",
        type=natural,
        default=0,
        help="seed for parameters, inputs and dropout; default: 0",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    add_ranks(parser)


def _proofs(options: Namespace) -> frozenset[str]:
    """The kinds of proof that a command asks for."""
    ranks = options.plan is not None or options.on is not None
    return frozenset(options.against or (RANKS if ranks else ("fd",)))


def _proves_ranks(options: Namespace) -> bool:
    return bool(_proofs(options) & RANKS) or on_processes(options)


RULES: Final = (
    Rule("--plan", _proves_ranks, "is for proofs of ranks: add --against single,exact"),
    Rule("--on", _proves_ranks, "is for proofs of ranks: add --against single"),
    Rule(
        "--every-choice",
        lambda options: bool(_proofs(options) - {"document"}),
        "is for proofs, but examples make their own choice: add --against fd",
    ),
    Rule(
        "--kernels",
        lambda options: bool(_proofs(options) - {"document", "exact"}),
        "changes code, which runs in floats: add --against fd or single",
    ),
    Rule("--timeout", on_processes, "is for ranks in processes: add --on processes"),
)


def run(options: Namespace, console: Console) -> int:
    """Prove every block, then every plan, then check every document."""
    from xg.cli.verification import verify

    return verify(options, console)
