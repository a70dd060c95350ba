"""`xg diff`: what two compilations differ in, and what that costs."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import TYPE_CHECKING

from xg.cli.arguments import FILE_HELP, Diagram, add_choice, settings_of
from xg.cli.console import Console, json_text
from xg.cli.exits import FINE, PROBLEM, USAGE

if TYPE_CHECKING:
    from xg_pages.diff import Difference, Side

EXAMPLE = "xg diff transformer --block Attention --plan TP -o tp.svg"


def add_arguments(parser: ArgumentParser) -> None:
    """One file or two, under which plans, and where the figure goes."""
    parser.add_argument("file", metavar="FILE", type=Diagram, help=FILE_HELP)
    parser.add_argument(
        "other", metavar="NEW", type=Diagram, nargs="?", help="a newer version of FILE"
    )
    add_choice(parser)
    parser.add_argument(
        "--against",
        metavar="NAME",
        help="compare --plan with this plan; default: one device, or with two files the same plan",
    )
    parser.add_argument(
        "-o",
        dest="figure",
        metavar="FIGURE",
        type=Path,
        help="also draw the forward figure and mark what differs: .svg, .png, .pdf, .tex or .dot",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.add_argument(
        "--exit-code", action="store_true", help="exit with 1 if an edge or a collective differs"
    )


FORMATS = (".svg", ".png", ".pdf", ".tex", ".dot")


def run(options: Namespace, console: Console) -> int:
    """Compile both, compare, and print."""
    from xg.cli.opening import open_project
    from xg_pages.diff import compare
    from xg_pages.diff.report import as_data, lines

    if options.figure is not None and options.figure.suffix not in FORMATS:
        console.note(f"xg diff: -o draws {', '.join(FORMATS)}, not {options.figure.name}")
        return USAGE
    if options.other is None and options.plan is None and options.against is None:
        open_project(options.file)  # a missing file is reported first
        console.note("xg diff: name what to compare with: a second file, or --plan NAME")
        return USAGE
    if options.file == options.other == "-":
        console.note("xg diff: standard input can be one of the two files, not both")
        return USAGE
    difference = compare(*_sides(options))
    if options.figure is not None:
        _draw(difference, options.figure)
    if options.json:
        console.write(json_text(as_data(difference)))
    else:
        console.say_lines(lines(difference))
    return PROBLEM if options.exit_code and not difference.is_empty else FINE


def _sides(options: Namespace) -> tuple[Side, Side]:
    """The old and the new side."""
    if options.other is None:
        old = _side(options, options.file, options.against, options.against or "one device")
        return old, _side(options, options.file, options.plan, options.plan or "one device")
    against = options.against or options.plan
    names = [_side_name(options.file, against), _side_name(options.other, options.plan)]
    return (
        _side(options, options.file, against, names[0]),
        _side(options, options.other, options.plan, names[1]),
    )


def _side_name(file: str, plan: str | None) -> str:
    name = "standard input" if file == "-" else file
    return f"{name} under {plan}" if plan else name


def _side(options: Namespace, file: str, plan: str | None, name: str) -> Side:
    from xg.cli.opening import open_project
    from xg.cost.report import report
    from xg.driver import compile_project
    from xg_pages.diff import Side

    program = compile_project(open_project(file), options.block, settings_of(options), plan)
    counted = report(program.graphs, program.distributed)
    return Side(name, program.graphs, program.distributed, counted)


def _draw(difference: Difference, path: Path) -> None:
    from xg.figures import dot, render
    from xg_pages.diff import changed_figure
    from xg_runtime.files import write

    figure = changed_figure(difference)
    match path.suffix:
        case ".dot":
            data = dot(figure, "light").encode()
        case ".svg":
            data = render(figure, "svg", "auto")
        case ".pdf" | ".tex" as ending:
            data = render(figure, ending[1:], "light")  # pyright: ignore[reportArgumentType] # matched
        case _:
            data = render(figure, "png", "light")
    write(path, data)
