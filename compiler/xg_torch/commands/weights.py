"""`xg weights`: checkpoints as they are published, read for a diagram and written back."""

from __future__ import annotations

from argparse import ArgumentParser
from pathlib import Path
from typing import Final

from xg.cli.arguments import Rule, add_file, add_names, gives

EXAMPLE = (
    "xg new tiny_gpt\nxg train tiny_gpt/tiny_gpt.xg --steps 20\n"
    "xg weights tiny_gpt/tiny_gpt.xg --to published "
    "--from runs/tiny_gpt/checkpoints/step-00000020/params.safetensors"
)


def add_arguments(parser: ArgumentParser) -> None:
    """A file, a checkpoint, and where its parameters go."""
    add_file(parser, plans=False)
    parser.add_argument(
        "--from",
        dest="source",
        metavar="CHECKPOINT",
        type=Path,
        required=True,
        help="a folder, a .safetensors file or the index of several, published or written by xg",
    )
    add_names(parser)
    parser.add_argument(
        "-o", dest="out", metavar="OUT", type=Path, help="parameters by the diagram's names"
    )
    parser.add_argument(
        "--to", metavar="FOLDER", type=Path, help="weights and config.json by published names"
    )
    parser.add_argument(
        "--dtype",
        choices=("float32", "float64", "float16", "bfloat16"),
        default="float32",
        metavar="TYPE",  # a usage line of 60 columns has no room for all four
        help="float32, float64, float16 or bfloat16, of what is written; checkpoints in bfloat16"
        " are kept as they are by bfloat16",
    )


RULES: Final = (
    Rule("--dtype", gives("out", "to"), "is of what is written: -o FILE or --to FOLDER"),
)
