"""`xg cost`: parameters, FLOPs, memory and communication, as formulas and numbers."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path

from xg.cli.arguments import add_file, compile_one
from xg.cli.console import Console
from xg.cli.exits import FINE

EXAMPLE = "xg cost diagrams/models/transformer.xg --plan DP_TP --set B=8 --set S=128"
ALL = "*"


def add_arguments(parser: ArgumentParser) -> None:
    """A file, what floats are, the machines, and the form of the answer."""
    add_file(parser)
    parser.add_argument(
        "--dtype",
        choices=("float32", "float64", "bfloat16"),
        default="float32",
        help="of every float, for bytes; default: float32",
    )
    parser.add_argument(
        "--hardware",
        metavar="FILE",
        type=Path,
        help="a table of machines (TOML) for the estimates of time; default: the one that comes "
        "along",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def run(options: Namespace, console: Console) -> int:
    """Count, and print."""
    from xg.cli.rates import read_machines

    machines = read_machines(options.hardware)
    if options.plan == ALL:
        from xg.cli.render.cost_plans import run_all

        return run_all(options, machines, console)
    from xg.cost.report import report

    program = compile_one(options)
    found = report(program.graphs, program.placed, options.dtype, machines)
    if options.json:
        from xg.cli.render.cost_data import as_data
        from xg.cli.render.json_text import json_text

        console.write(json_text(as_data(found)))
        return FINE
    from xg.cli.render.cost_text import lines

    for line in lines(found):
        console.say(line)
    return FINE
