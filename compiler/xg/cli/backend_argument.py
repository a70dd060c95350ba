"""The argument `--backend`, apart from those of commands that need no backend to start."""

from __future__ import annotations

from argparse import ArgumentParser

from xg.codegen.backend import backends, default


def add_backend(parser: ArgumentParser) -> None:
    """The backend to run."""
    parser.add_argument(
        "--backend",
        choices=tuple(backends()),
        default=default().name,
        help=f"what computes; default: {default().name}",
    )
