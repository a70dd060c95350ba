"""`xg import`: a model of torch as an `.xg` file, with its names and weights."""

# ruff: noqa: N999 - commands are modules of their names, and nobody writes `import xg.cli.commands.import`

from __future__ import annotations

from argparse import ArgumentParser
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    pass

EXAMPLE = "xg import model.pt2 -o model.xg --params model.safetensors"


def add_arguments(parser: ArgumentParser) -> None:
    """A program of torch.export, and where the diagram and the weights go."""
    parser.add_argument(
        "model",
        metavar="MODEL.pt2",
        type=Path,
        help="what torch.export.save wrote; it is read as data, and nothing in it is run",
    )
    parser.add_argument(
        "-o", dest="out", metavar="FILE.xg", required=True, help="the diagram; - prints it"
    )
    parser.add_argument(
        "--params", metavar="P", type=Path, help="the weights too: .safetensors or .npz"
    )
    parser.add_argument(
        "--name", metavar="NAME", help="of the block for the whole model; default: its class"
    )
