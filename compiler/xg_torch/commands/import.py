"""`xg import`: a model of torch or ONNX as an `.xg` file, with its names and weights."""

# ruff: noqa: N999 - commands are modules of their names, none is imported as `import xg_torch.commands.import`

from __future__ import annotations

from argparse import ArgumentParser
from pathlib import Path

from xg.cli.arguments import FileOrName, XgFile

EXAMPLE = (
    "xg export mlp --seed 0 -o mlp.onnx\n"
    "xg import mlp.onnx -o imported.xg --params imported.safetensors"
)


def add_arguments(parser: ArgumentParser) -> None:
    """A model, and where the diagram and the weights go."""
    parser.add_argument(
        "model",
        metavar="MODEL",
        type=FileOrName,
        help="a .pt2 of torch.export.save, which is read as data; an .onnx; a folder of "
        "transformers (config.json and weights); or module:function, which returns a model and its "
        "inputs",
    )
    parser.add_argument(
        "-o",
        dest="out",
        metavar="FILE.xg",
        type=XgFile,
        required=True,
        help="the diagram; - prints it",
    )
    parser.add_argument(
        "--params", metavar="P", type=Path, help="the weights too: .safetensors or .npz"
    )
    parser.add_argument(
        "--name", metavar="NAME", help="of the block for the whole model; default: its class"
    )
