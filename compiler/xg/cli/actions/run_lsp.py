"""`xg lsp`: the language server that editors start."""

from __future__ import annotations

import gc
import os
import signal
import sys
from argparse import Namespace
from importlib.util import find_spec

from xg import __version__
from xg.cli.console import Console
from xg.cli.exits import FINE, PROBLEM

MISSING = "pip install 'xg[lsp]'"
# A command that ends soon rests its collector; a server would keep a third of its memory for
# graphs of texts that are no more.
COLLECTED = (20_000, 5, 5)


def run(options: Namespace, console: Console) -> int:
    """Serve one editor until it leaves; 1 if it leaves without a good-bye."""
    if find_spec("pygls") is None:
        console.note(f"xg lsp needs the package pygls: {MISSING}")
        return PROBLEM
    from xg.editor.server.language_server import make_server  # needs pygls

    if sys.stdin.isatty():
        console.note("xg lsp waits for an editor, not for a person: see docs/editor.md")
    # Ctrl-C just ends the process: there is nothing to save, and a thread that waits for input
    # would keep a gentler end from coming.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    gc.freeze()  # modules, which no search needs to visit
    gc.set_threshold(*COLLECTED)
    server = make_server(__version__)
    # Streams of its own, because the server closes them when it ends.
    with os.fdopen(os.dup(0), "rb") as stdin, os.fdopen(os.dup(1), "wb") as stdout:
        server.start_io(stdin, stdout)
    return FINE if server.ended_well else PROBLEM
