"""`xg completion`: the script with which the Tab key of a shell completes words."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from xg.cli import shell_scripts as scripts
from xg.cli.console import Console
from xg.cli.exits import FINE
from xg.cli.shell_scripts import all_commands
from xg.frontend.project import library_files

EXAMPLE = "xg completion bash"


def add_arguments(parser: ArgumentParser) -> None:
    """Which shell."""
    parser.add_argument(
        "shell",
        metavar="SHELL",
        choices=("bash", "zsh", "fish"),
        help='bash, zsh or fish; for example, add to ~/.bashrc: eval "$(xg completion bash)"',
    )


def run(options: Namespace, console: Console) -> int:
    """Print the script of the shell, whose function has its name."""
    script = getattr(scripts, options.shell)
    console.write(script(all_commands(), [file.stem for file in library_files()]))
    return FINE
