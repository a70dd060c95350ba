"""`xg lsp`: the language server that editors start."""

from __future__ import annotations

from argparse import ArgumentParser

EXAMPLE = "xg lsp --stdio"


def add_arguments(parser: ArgumentParser) -> None:
    """Nothing to choose; many editors pass the transport."""
    parser.add_argument(
        "--stdio", action="store_true", help="speak on standard input and output, the only way"
    )
