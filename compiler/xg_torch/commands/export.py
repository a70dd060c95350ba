"""`xg export`: a block with its parameters as a file that runs without xg."""

from __future__ import annotations

from argparse import ArgumentParser
from pathlib import Path
from typing import Final

from xg.cli.arguments import Rule, add_file, add_kernels, add_names, gives, lacks, natural

EXAMPLE = "xg export mlp --seed 0 -o mlp.onnx"


def add_arguments(parser: ArgumentParser) -> None:
    """A file, its parameters, and where the model goes."""
    add_file(parser, plans=False)
    parser.add_argument(
        "-o",
        dest="out",
        metavar="OUT",
        type=Path,
        required=True,
        help="an .onnx file, or a .pt2 of torch.export; sizes without a number stay free in it",
    )
    parser.add_argument(
        "--params",
        metavar="P",
        type=Path,
        help=".safetensors or .npz, or a published checkpoint: a file, an index or a folder",
    )
    add_names(parser)
    parser.add_argument(
        "--seed",
        type=natural,
        default=0,
        help="draws the parameters where no file gives them; default: 0",
    )
    add_kernels(parser)


RULES: Final = (
    Rule("--seed", lacks("params"), "draws parameters, and --params gives them all"),
    Rule("--names", gives("params"), "says what the tensors of a checkpoint are: --params FILE"),
)
