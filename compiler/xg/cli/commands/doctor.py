"""`xg doctor`: the state of this machine, and how to fix what is missing."""

from __future__ import annotations

from argparse import ArgumentParser

EXAMPLE = "xg doctor"


def add_arguments(parser: ArgumentParser) -> None:
    """Only the form of the answer."""
    parser.add_argument("--json", action="store_true", help="print one JSON document")
