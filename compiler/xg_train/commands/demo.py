"""`xg demo`: the promise of xg on one screen; `--all` builds the gallery."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path

from xg.cli.arguments import Shipped, positive
from xg.cli.console import Console

EXAMPLE = "xg demo"


def add_arguments(parser: ArgumentParser) -> None:
    """Add what to show, where to write it, and how long to train."""
    parser.add_argument(
        "-o",
        "--out",
        dest="folder",
        metavar="DIR",
        type=Path,
        default=Path("out/demo"),
        help="folder to write to; default: out/demo",
    )
    parser.add_argument(
        "--steps",
        type=positive,
        metavar="N",
        help="training steps; default: 60, with --all or NAME 300",
    )
    parser.add_argument(
        "--all",
        dest="every",
        action="store_true",
        help="build every shipped diagram, prove every gradient, and train a transformer, "
        "on all cores: this takes minutes",
    )
    parser.add_argument(
        "names",
        metavar="NAME",
        type=Shipped,
        nargs="*",
        help="do what --all does, for these shipped diagrams only",
    )
    parser.set_defaults(threads=None)


def run(options: Namespace, console: Console) -> int:
    """Tell the story of one text, or build the gallery."""
    # Both import all that xg has; the arguments of a command need none of it.
    if options.every or options.names:
        from xg_train.story import show_gallery

        return show_gallery(options, console)
    from xg_train.story import tell

    return tell(options, console)
