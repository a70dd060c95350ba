"""`xg cost`: parameters, FLOPs, memory and communication, as formulas and numbers."""

from __future__ import annotations

from argparse import Namespace

from xg.cli.compiling import compile_one
from xg.cli.console import Console
from xg.cli.exits import FINE
from xg.cli.rates import read_machines
from xg.cli.render.cost_data import as_data
from xg.cli.render.cost_plans import run_all
from xg.cli.render.cost_text import lines
from xg.cli.render.json_text import json_text
from xg.cost.report import report

ALL = "*"


def run(options: Namespace, console: Console) -> int:
    """Count, and print."""
    machines = read_machines(options.hardware)
    if options.plan == ALL:
        return run_all(options, machines, console)
    program = compile_one(options)
    cost_report = report(program.graphs, program.distributed, options.dtype, machines)
    if options.json:
        console.write(json_text(as_data(cost_report)))
        return FINE
    for line in lines(cost_report):
        console.say(line)
    return FINE
