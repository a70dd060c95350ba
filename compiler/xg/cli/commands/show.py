"""`xg show`: one view of a block, on standard output."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from xg.cli.arguments import add_file, add_kernels, compile_one, settings_of
from xg.cli.console import Console
from xg.cli.exits import FINE, USAGE

EXAMPLE = "xg show diagrams/notation/mlp.xg --as numpy"


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
        choices=("ir", "dot", "numpy", "torch", "cost", "html"),
        default="ir",
        help="the graph (ir), a figure's DOT text, the code, the cost, or the explorer's page "
        "(html); default: ir",
    )
    add_kernels(parser)


def run(options: Namespace, console: Console) -> int:
    """Print the view."""
    program = compile_one(options)
    if options.kernels and options.form in ("dot", "cost", "html"):
        console.note("xg show: --kernels changes the code and its graph: --as ir, numpy or torch")
        return USAGE
    if options.view == "overview" and options.form != "dot":
        console.note("xg show: an overview is a figure: --as dot")
        return USAGE
    if options.view in ("forward", "backward") and options.form not in ("ir", "dot"):
        console.note(f"xg show: {options.form} has both passes: --pass takes ir and dot apart")
        return USAGE
    if options.view == "step" and options.form == "html":
        console.note("xg show: a page has both passes of a block, and a step has one: --as dot")
        return USAGE
    if options.view == "step":
        program, options.view = program.step(), "forward"
    match options.form:
        case "dot":
            console.write(program.dot(options.view or "forward"))
        case "html":
            from xg.pages.explorer import explore

            page = explore(program, settings_of(options)).page
            console.write(page.decode("utf-8"))
        case "cost":
            from xg.cli.render.cost_text import lines

            console.write("\n".join(lines(program.cost())) + "\n")
        case "ir":
            from xg.ir.printer import spell_program

            passes = (options.view,) if options.view else ("forward", "backward")
            graphs = program.fused if options.kernels else program.graphs
            console.write(spell_program(graphs, passes))
        case backend:
            console.write(program.source(backend, kernels=options.kernels))
    return FINE
