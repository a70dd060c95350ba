"""`xg explain`: a diagram with numbers as a page to read."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import TYPE_CHECKING

from xg.cli.arguments import add_file, open_project, refuse_plan, settings_of
from xg.cli.console import Console
from xg.cli.exits import FINE, USAGE
from xg.diagnostics.terminal import printable

if TYPE_CHECKING:
    from xg.frontend.project import Project
    from xg.pages.explain.bound import Bound
    from xg.pages.explain.page import Page
    from xg.syntax import ast

EXAMPLE = "xg explain diagrams/examples/cat_sleeps.xg -o cat_sleeps.html"

ENDINGS = (".html", ".md")


def add_arguments(parser: ArgumentParser) -> None:
    """A file, whose numbers, and where the page goes."""
    add_file(parser)
    parser.add_argument(
        "-o",
        dest="out",
        metavar="PAGE",
        type=Path,
        help=".html or .md; without it Markdown is printed",
    )
    parser.add_argument(
        "--example", metavar="TITLE", help="the example whose numbers are shown; default: the first"
    )
    parser.add_argument(
        "--seed",
        type=int,
        metavar="N",
        help="draw the numbers from N, where no example is wanted; 0 for a file without examples",
    )


def run(options: Namespace, console: Console) -> int:
    """Compute, compose, write."""
    refuse_plan(options)
    out: Path | None = options.out
    if out is not None and out.suffix not in ENDINGS:
        console.note(f"xg explain: {printable(str(out))} must end in {' or '.join(ENDINGS)}")
        return USAGE
    if options.example is not None and options.seed is not None:
        console.note("xg explain: numbers are those of an example, or drawn from a seed")
        return USAGE
    from xg.pages.explain.compose import compose

    page = compose(_bound(open_project(options.file), options))
    if out is None:
        from xg.pages.explain.markdown import markdown

        console.write(markdown(page))
        return FINE
    from xg_runtime import files

    files.write(out, _written(page, out, console).encode("utf-8"))
    console.say(f"{out}: {_counted(page)}")
    return FINE


def _bound(project: Project, options: Namespace) -> Bound:
    """The numbers that are asked for; raises DiagnosticError, InputError."""
    from xg.pages.explain.bound import of_block, of_example

    example = _example(project, options) if options.seed is None else None
    if example is not None:
        from xg.frontend.examples.bind import bind

        return of_example(bind(project, example, settings_of(options)))
    from xg_runtime.errors import InputError

    bound = of_block(project, options.block, settings_of(options), options.seed or 0)
    if bound is None:
        raise InputError("the sizes of this file are too large to work out: choose with --set")
    return bound


def _example(project: Project, options: Namespace) -> ast.Example | None:
    """The example that is asked for, or the first; None for a block without examples."""
    own = [e for e in project.main.examples if options.block in (None, e.block.name)]
    titles = {example.title.value: example for example in reversed(own) if example.title}
    if options.example is None:
        return own[0] if own else None
    if options.example not in titles:
        from xg_runtime.errors import InputError

        known = ", ".join(f'"{title}"' for title in reversed(titles)) or "none"
        raise InputError(f'no example is called "{options.example}"; there are: {known}')
    return titles[options.example]


def _written(page: Page, out: Path, console: Console) -> str:
    if out.suffix == ".md":
        from xg.pages.explain.markdown import markdown

        return markdown(page)
    from xg.pages.explain.html import html

    written = html(page)
    for warning in written.warnings:
        console.note(f"warning: {warning}")
    return written.text


def _counted(page: Page) -> str:
    forward = sum(len(section.forward.steps) for section in page.sections)
    back = sum(len(section.backward.steps) for section in page.sections if section.backward)
    return f"{forward} steps forward, {back} backward"
