"""`xg show`: one view of a block, on standard output."""

from __future__ import annotations

from argparse import ArgumentParser

from xg.cli.arguments import add_file, add_kernels
from xg.cli.quantities import natural
from xg.codegen.backend import backends

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
        choices=("ir", "dot", *backends(), "cost", "html"),
        default="ir",
        help="the graph (ir), a figure's DOT text, the code, the cost, or the explorer's page "
        "(html); default: ir",
    )
    parser.add_argument(
        "--after",
        metavar="PASS",
        help="the graph after a pass of the compiler: infer, eliminate-dead, differentiate …; "
        "with a plan also annotate, place, check and localize, with --kernels also hoist, fuse "
        "and collect",
    )
    parser.add_argument(
        "--stage",
        type=natural,
        metavar="K",
        help="the program of one stage of a pipeline, the first is 0",
    )
    add_kernels(parser)
