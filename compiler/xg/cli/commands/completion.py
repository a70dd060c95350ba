"""`xg completion`: the script with which the Tab key of a shell completes words."""

from __future__ import annotations

from argparse import ArgumentParser

EXAMPLE = "xg completion bash"


def add_arguments(parser: ArgumentParser) -> None:
    """Which shell."""
    parser.add_argument(
        "shell",
        metavar="SHELL",
        choices=("bash", "zsh", "fish"),
        help='bash, zsh or fish; in ~/.bashrc or ~/.zshrc: eval "$(xg completion bash)"',
    )
