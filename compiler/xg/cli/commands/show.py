"""`xg show`: one view of a block, on standard output."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from xg.cli.arguments import Rule, add_file, add_kernels, has_plan_name, natural
from xg.cli.console import Console
from xg.cli.dispatch import CommandParser
from xg.cli.exits import FINE, USAGE
from xg.codegen.backend import backends
from xg.diagnostics.terminal import columns_of, fold, printable
from xg.packages import additions_to, forms, load

if TYPE_CHECKING:
    from xg.driver import Program

EXAMPLE = "xg show mlp --as numpy"


def add_arguments(parser: ArgumentParser) -> None:
    """A file, which pass of it, and in which form."""
    if isinstance(parser, CommandParser):
        parser.further = _shipped_diagrams
    add_file(parser)
    added = forms()
    parser.add_argument(
        "--pass",
        dest="view",
        choices=("forward", "backward", "overview", "step"),
        help="the pass to print; step is one decoding step with its cache; default: both "
        "passes, or forward with --as dot",
    )
    parser.add_argument(
        "--as",
        dest="form",
        choices=("ir", "dot", *backends(), "cost", "xg", *added),
        default="ir",
        metavar="FORM",
        help="what to print: the graph (ir), the DOT text of a figure (dot), code "
        f"({', '.join(backends())}), the cost (cost), the source itself (xg)"
        f"{''.join(f', {form.about} ({name})' for name, form in added.items())}; default: ir",
    )
    parser.add_argument(
        "--after",
        metavar="PASS",
        help="print the graph after this compiler pass: infer, eliminate-dead, differentiate …; "
        "with a plan also annotate, place, check and localize; with --kernels also hoist, fuse "
        "and collect",
    )
    parser.add_argument(
        "--whole",
        action="store_true",
        help="print the whole module, as `xg build` writes it; default: only the forward and "
        "backward functions of the blocks",
    )
    parser.add_argument(
        "--stage",
        type=natural,
        metavar="K",
        help="print this pipeline stage; the first is 0",
    )
    for module in additions_to("show"):
        module.add_arguments(parser)
    add_kernels(parser)


def _shipped_diagrams() -> Iterator[str]:
    """The names of the shipped diagrams."""
    from xg.frontend.project import library_files  # the help alone needs it

    yield "\nshipped diagrams:"
    names = ", ".join(file.stem for file in library_files())
    columns = columns_of(sys.stdout)
    yield from (f"  {line}" for line in fold(names, columns and columns - 2, 0))


def _is_code(options: Namespace) -> bool:
    return options.form in backends()


RULES: Final = (
    Rule("--stage", has_plan_name, "needs a pipeline: add --plan NAME"),
    Rule("--whole", _is_code, f"prints code: add --as {' or '.join(backends())}"),
)


def run(options: Namespace, console: Console) -> int:
    """Print the view."""
    from xg.cli.compiling import compile_request, stage_of
    from xg.codegen.emit.module import block_functions
    from xg.cost.report import lines
    from xg.passes.ir_text import spell_program

    if options.form == "xg":
        return _text(options, console)
    added = forms().get(options.form)
    if added is not None:
        return load(added.show)(options, console)
    program = stage_of(compile_request(options), options.stage)
    if options.kernels and options.form in ("dot", "cost"):
        code = " or ".join(backends())
        console.note(f"xg show: --kernels changes the code and its graph: --as ir, {code}")
        return USAGE
    if options.view == "overview" and options.form != "dot":
        console.note("xg show: an overview is a figure: add --as dot")
        return USAGE
    if options.view in ("forward", "backward") and options.form not in ("ir", "dot"):
        console.note(f"xg show: {options.form} has both passes: --pass takes ir and dot apart")
        return USAGE
    if options.after is not None:
        return _after(program, options, console)
    if options.view == "step":
        program, options.view = program.step(), "forward"
    match options.form:
        case "dot":
            console.write(program.dot(options.view or "forward"))
        case "cost":
            console.say("\n".join(lines(program.cost(), full=True)))
        case "ir":
            passes = (options.view,) if options.view else ("forward", "backward")
            graphs = program.fused if options.kernels else program.graphs
            console.write(spell_program(graphs, passes))
        case backend:
            source = program.source(backend, kernels=options.kernels)
            console.write(source if options.whole else block_functions(source))
    return FINE


def _text(options: Namespace, console: Console) -> int:
    """Print the file as it is written, without its block being compiled."""
    from xg.cli.opening import open_project

    chosen = {
        "--block": options.block is not None,
        "--plan": options.plan is not None,
        "--set": bool(options.settings),
        "--pass": options.view is not None,
        "--after": options.after is not None,
        "--stage": options.stage is not None,
        "--kernels": options.kernels,
    }
    given = [word for word, is_given in chosen.items() if is_given]
    if given:
        console.note(f"xg show: the text of a file is the same with {given[0]}: leave it out")
        return USAGE
    console.write(open_project(options.file).main.span.source.text)
    return FINE


def _after(program: Program, options: Namespace, console: Console) -> int:
    """Print the graphs as one pass left them."""
    from xg.passes.ir_text import spell_program

    history = program.fused_history if options.kernels else program.history
    stages = dict(history.stages) if history else {}
    if options.form != "ir" or options.view in ("step", "overview"):
        console.note("xg show: --after prints the graph: use it with --as ir")
        return USAGE
    if options.after not in stages:
        ran = ", ".join(stages)
        console.note(f"xg show: no pass {printable(options.after)} ran; these did: {ran}")
        return USAGE
    passes = (options.view,) if options.view else ("forward", "backward")
    console.write(spell_program(stages[options.after], passes))
    return FINE
