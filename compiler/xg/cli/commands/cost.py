"""`xg cost`: parameters, FLOPs, memory and communication, as formulas and numbers."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import Final

from xg.cli.arguments import Rule, add_file, has_plan_name, natural, positive
from xg.cli.console import Console

EXAMPLE = "xg cost transformer --plan DP_TP --set B=8 --set S=128"


def add_arguments(parser: ArgumentParser) -> None:
    """A file, what floats are, the machines, and the form of the answer."""
    add_file(parser)
    parser.add_argument(
        "--dtype",
        choices=("float32", "float64", "bfloat16"),
        default="float32",
        help="type of floats, for sizes in bytes; default: float32",
    )
    parser.add_argument(
        "--hardware",
        metavar="FILE",
        type=Path,
        help="a TOML table of machines, for time estimates; default: the table in xg",
    )
    parser.add_argument(
        "--microbatches",
        type=positive,
        metavar="N",
        help="microbatches of a pipeline, for its idle time; default: those of the plan, or "
        "two per rank",
    )
    parser.add_argument(
        "--timeline",
        metavar="PICTURE",
        type=Path,
        help="draw when pipeline stages work and wait: .svg, .pdf, .png or .tex",
    )
    parser.add_argument(
        "--stage",
        type=natural,
        metavar="K",
        help="the pipeline stage to count in detail; default: 0, the first",
    )
    parser.add_argument(
        "--full",
        action="store_true",
        help="also print every operator, the parts of memory and traffic, the largest array "
        "and recomputation",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON document")


RULES: Final = (
    Rule("--stage", has_plan_name, "needs a pipeline: add --plan NAME"),
    Rule(
        "--full",
        lambda options: not options.json and options.plan != "*",
        "prints more about one plan: leave --json and --plan '*' out",
    ),
    Rule("--microbatches", has_plan_name, "needs a pipeline: add --plan NAME"),
    Rule("--timeline", has_plan_name, "needs a pipeline: add --plan NAME"),
)


def run(options: Namespace, console: Console) -> int:
    """Count the costs of a program, of its stages or of every plan."""
    from xg.cli.costs import report

    return report(options, console)
