"""`xg show --as html`: the explorer's page."""

from __future__ import annotations

from argparse import Namespace

from xg.cli.arguments import settings_of
from xg.cli.compiling import compile_request, stage_of
from xg.cli.console import Console
from xg.cli.exits import FINE, USAGE
from xg.codegen.backend import backends
from xg_pages.explorer import explore


def show(options: Namespace, console: Console) -> int:
    """Print the page of a block."""
    refusal = _refusal(options)
    if refusal is not None:
        console.note(f"xg show: {refusal}")
        return USAGE
    program = stage_of(compile_request(options), options.stage)
    console.write(explore(program, settings_of(options)).page.decode("utf-8"))
    return FINE


def _refusal(options: Namespace) -> str | None:
    """Name the option that a page has no place for."""
    if options.kernels:
        code = " or ".join(backends())
        return f"--kernels changes the code and its graph: --as ir, {code}"
    if options.view == "overview":
        return "an overview is a figure: --as dot"
    if options.view == "step":
        return "a page has both passes of a block, and a step has one: --as dot"
    if options.view is not None:
        return "html has both passes: --pass takes ir and dot apart"
    if options.after is not None:
        return "--after shows the graph: --as ir, of both passes or one"
    return None
