"""`xg show`: one view of a block, on standard output."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from xg.cli.arguments import add_file, add_kernels, compile_one
from xg.cli.console import Console
from xg.cli.exits import FINE, USAGE

EXAMPLE = "xg show diagrams/mlp.xg --as numpy"


def add_arguments(parser: ArgumentParser) -> None:
    """A file, which pass of it, and in which form."""
    add_file(parser)
    parser.add_argument(
        "--pass",
        dest="view",
        choices=("forward", "backward", "overview", "step"),
        help="of DOT, by default forward; of the graph, by default both passes; step: "
        "the forward pass for new positions only, with the cache that it keeps",
    )
    parser.add_argument(
        "--as",
        dest="form",
        choices=("ir", "dot", "numpy", "torch", "cost"),
        default="ir",
        help="the graph (ir), a figure's DOT text, the code, or the cost; default: ir",
    )
    add_kernels(parser)


def run(options: Namespace, console: Console) -> int:
    """Print the view."""
    program = compile_one(options)
    if options.kernels and options.form in ("dot", "cost"):
        console.note("xg show: --kernels changes the code and its graph: --as ir, numpy or torch")
        return USAGE
    if options.view == "overview" and options.form != "dot":
        console.note("xg show: an overview is a figure: --as dot")
        return USAGE
    if options.view in ("forward", "backward") and options.form not in ("ir", "dot"):
        console.note(f"xg show: {options.form} has both passes: --pass takes ir and dot apart")
        return USAGE
    if options.view == "step":
        program, options.view = program.step(), "forward"
    match options.form:
        case "dot":
            console.write(program.dot(options.view or "forward"))
        case "cost":
            from xg.cli.cost import lines

            console.write("\n".join(lines(program.cost())) + "\n")
        case "ir":
            from xg.text import spell_program

            passes = (options.view,) if options.view else ("forward", "backward")
            graphs = program.fused if options.kernels else program.graphs
            console.write(spell_program(graphs, passes))
        case backend:
            console.write(program.source(backend, kernels=options.kernels))
    return FINE
