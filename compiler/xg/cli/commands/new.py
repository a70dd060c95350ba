"""`xg new`: a project that works, to be changed."""

from __future__ import annotations

import re
from argparse import ArgumentParser, ArgumentTypeError
from pathlib import Path

EXAMPLE = "xg new tiny_gpt"


def add_arguments(parser: ArgumentParser) -> None:
    """Where it goes."""
    parser.add_argument(
        "folder",
        metavar="NAME",
        type=project_folder,
        help="of the project: a folder here, or a path; files that are there are not overwritten",
    )


def project_folder(text: str) -> Path:
    """A path that ends in a name that files, figures and modules may have."""
    folder = Path(text)
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", folder.name):
        raise ArgumentTypeError(
            f"{folder.name!r} is no name for a project: a letter, then letters, digits and _"
        )
    return folder
