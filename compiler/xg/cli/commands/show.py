"""`xg show`: one view of a block, on standard output."""

from __future__ import annotations

import sys
from argparse import ArgumentParser
from collections.abc import Iterator
from typing import Final

from xg.cli.arguments import Rule, add_file, add_kernels, is_placed, natural
from xg.cli.dispatch import CommandParser
from xg.codegen.backend import backends
from xg.diagnostics.terminal import columns_of, fold
from xg.packages import additions_to, forms

EXAMPLE = "xg show mlp --as numpy"


def add_arguments(parser: ArgumentParser) -> None:
    """A file, which pass of it, and in which form."""
    if isinstance(parser, CommandParser):
        parser.further = _shipped
    add_file(parser)
    added = forms()
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
        choices=("ir", "dot", *backends(), "cost", "xg", *added),
        default="ir",
        metavar="FORM",
        help="the graph (ir), a figure's DOT text (dot), the code "
        f"({', '.join(backends())}), the cost (cost), the text of the file itself (xg)"
        f"{''.join(f', {form.about} ({name})' for name, form in added.items())}; default: ir",
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
    for module in additions_to("show"):
        module.add_arguments(parser)
    add_kernels(parser)


def _shipped() -> Iterator[str]:
    """The names of the shipped diagrams."""
    from xg.frontend.project.lookup import library_files  # the help alone needs it

    yield "\nshipped diagrams:"
    names = ", ".join(file.stem for file in library_files())
    columns = columns_of(sys.stdout)
    yield from (f"  {line}" for line in fold(names, columns and columns - 2, 0))


RULES: Final = (Rule("--stage", is_placed, "is of a pipeline: --plan NAME"),)
