"""The `xg` command: one module per command, imported when it is called."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from xg.cli.command_list import COMMANDS
from xg.cli.exits import FINE, USAGE


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns its exit code (see `exits`) and never raises.

    Without arguments the process's own are taken, and the process is expected to end then.
    """
    given = list(sys.argv[1:] if arguments is None else arguments)
    if not given or given[0] in ("-h", "--help", "help"):
        sys.stdout.write(_overview())
        return FINE if given else USAGE
    if given[0] in ("-V", "--version"):
        from xg import __version__

        sys.stdout.write(f"xg {__version__}\n")
        return FINE
    if given[0] not in COMMANDS:
        return _unknown(given[0])
    from xg.cli.dispatch import dispatch, dispatch_last

    return (dispatch_last if arguments is None else dispatch)(given[0], given[1:])


def _overview() -> str:
    width = max(map(len, COMMANDS))
    commands = "\n".join(f"  {name:{width}}  {says}" for name, says in COMMANDS.items())
    return f"""\
usage: xg COMMAND FILE... [options]
       xg COMMAND --help        what a command does, with an example
       xg --version

Diagrams of neural networks in, figures, derived gradients and readable code out.

{commands}

Try it: xg demo
"""


def _unknown(name: str) -> int:
    from difflib import get_close_matches

    from xg.diagnostics.terminal import printable

    close = get_close_matches(name, COMMANDS, n=1)
    hint = f"did you mean {close[0]}?" if close else "xg --help lists them"
    sys.stderr.write(f"xg: there is no command {printable(name)}: {hint}\n")
    return USAGE
