"""`xg man`: every command and option as a page for `man`."""

from __future__ import annotations

from argparse import ArgumentParser

EXAMPLE = "xg man"


def add_arguments(parser: ArgumentParser) -> None:
    """Nothing to choose."""
    del parser
