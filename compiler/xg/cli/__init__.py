"""The `xg` command: each command is a module, imported when it is called."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from xg import __version__
from xg.cli.exits import FINE, USAGE
from xg.diagnostics.terminal import columns_of, fold

ABOUT = "write a neural network as text; get its figure, its gradients and readable code"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns its exit code (see `exits`) and never raises.

    Without arguments the process's own are taken, and the process is expected to end then.
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    if not words or words[0] in ("-h", "--help", "help"):
        sys.stdout.write(_folded(_overview()))
        return FINE if words else USAGE
    if words[0] in ("-V", "--version"):
        sys.stdout.write(f"xg {__version__}\n")
        return FINE
    from xg.cli.dispatch import dispatch, dispatch_last  # argparse: not for an overview

    return (dispatch_last if arguments is None else dispatch)(words[0], words[1:])


def _folded(text: str) -> str:
    columns = columns_of(sys.stdout)
    return "".join(f"{part}\n" for line in text.splitlines() for part in fold(line, columns))


def _overview() -> str:
    from xg.cli.command_list import commands  # which looks for packages: not for one command

    known = commands()
    width = max(map(len, known))
    listed = "\n".join(f"  {name:{width}}  {says}" for name, says in known.items())
    return f"""\
usage: xg COMMAND FILE... [options]
       xg COMMAND --help        what a command does, with an example
       xg --version

{ABOUT[0].upper()}{ABOUT[1:]}.

{listed}

Try it: xg demo
"""
