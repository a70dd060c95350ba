"""`xg man`: every command and option as a page for `man`."""

from __future__ import annotations

from argparse import Namespace

from xg import __version__
from xg.cli import ABOUT
from xg.cli.console import Console
from xg.cli.exits import FINE
from xg.cli.shells.man import manual
from xg.cli.shells.words import all_commands


def run(options: Namespace, console: Console) -> int:
    """Print the page in the language of `man`."""
    del options
    console.write(manual(all_commands(), __version__, ABOUT))
    return FINE
