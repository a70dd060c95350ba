"""`xg lsp`: the language server that editors start."""

from __future__ import annotations

import gc
import os
import signal
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from importlib.metadata import version
from importlib.util import find_spec

from xg import __version__
from xg.cli.console import Console
from xg.cli.exits import FINE, PROBLEM
from xg.diagnostics.lazy_dataclass import resting_collector
from xg.packages import Finding

EXAMPLE = "xg lsp --stdio"


def add_arguments(parser: ArgumentParser) -> None:
    """Accept `--stdio`, which many editors pass; there is no other transport."""
    parser.add_argument(
        "--stdio",
        action="store_true",
        help="use standard input and output, which is the only transport",
    )


MISSING = "pip install 'xg[lsp]'"


def run(options: Namespace, console: Console) -> int:
    """Serve one editor until it leaves; 1 if it leaves without a good-bye."""
    if find_spec("pygls") is None:
        console.note(f"xg lsp needs the package pygls: {MISSING}")
        return PROBLEM
    from xg_editor.language_server import make_server  # needs pygls

    if sys.stdin.isatty():
        console.note("xg lsp waits for an editor, not for a person: see docs/editor.md")
    # Ctrl-C just ends the process: there is nothing to save, and a thread that waits for input
    # would keep a gentler end from coming.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    gc.freeze()  # modules, which no search needs to visit
    server = make_server(__version__)
    # Streams of its own, because the server closes them when it ends.
    streams = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    with resting_collector(), streams[0] as stdin, streams[1] as stdout:  # it collects in pauses
        server.start_io(stdin, stdout)
    return FINE if server.ended_well else PROBLEM


# The line of `xg doctor` about editors.


def probe() -> Iterator[Finding]:
    """Whether `xg lsp` can serve an editor."""
    if find_spec("pygls") is None:
        fix = f"{MISSING}, for editors"
        yield Finding("pygls", "not needed", "not installed: no xg lsp", fix)
    else:
        yield Finding("pygls", "ok", f"{version('pygls')}: xg lsp serves editors")
