"""`xg generate`: text from a model, published or trained here."""

from __future__ import annotations

from argparse import ArgumentParser, ArgumentTypeError, Namespace
from pathlib import Path
from typing import Final

from xg.cli.arguments import (
    Diagram,
    FileOrName,
    Rule,
    add_choice,
    add_kernels,
    add_names,
    add_threads,
    amount,
    natural,
    positive,
)
from xg.cli.backend_argument import add_backend

EXAMPLE = (
    "xg train transformer --set N_L=2 --set D=64 --steps 300\n"
    "xg generate runs/transformer --prompt 'The ' --tokens 200"
)


def add_arguments(parser: ArgumentParser) -> None:
    """A model, what it begins with, and how its tokens are drawn."""
    parser.add_argument(
        "file",
        metavar="FILE",
        type=Diagram,
        help="an .xg file with --weights, or the folder of a run",
    )
    add_choice(parser, plans=False)
    parser.add_argument(
        "--weights",
        type=Path,
        metavar="W",
        help=".safetensors or .npz of the diagram's parameters, or a published checkpoint",
    )
    add_names(parser)
    parser.add_argument(
        "--tokenizer",
        metavar="T",
        type=FileOrName,
        help="a tokenizer.json, or bytes; default: the tokenizer.json beside the weights",
    )
    parser.add_argument(
        "--prompt", default="The ", metavar="TEXT", help="what the text begins with"
    )
    parser.add_argument(
        "--tokens", type=natural, default=200, metavar="N", help="at most; default: 200"
    )
    _add_drawing(parser)
    parser.add_argument(
        "--no-cache", action="store_true", help="read the whole text again for each token"
    )
    parser.add_argument("--window", type=positive, metavar="N", help="of a longer text see the end")
    said = "of --weights; default: float32"
    parser.add_argument("--dtype", choices=("float32", "float64"), default="float32", help=said)
    _add_run(parser)
    add_threads(parser)
    add_backend(parser, device=True)
    add_kernels(parser)


def _add_run(parser: ArgumentParser) -> None:
    run = parser.add_argument_group("of a run")
    run.add_argument(
        "--diagram", metavar="FILE", type=Diagram, help="where the .xg file is now, if it was moved"
    )
    run.add_argument(
        "--previous", action="store_true", help="from the checkpoint before the newest"
    )


def _add_drawing(parser: ArgumentParser) -> None:
    drawing = parser.add_argument_group("drawing")
    drawing.add_argument(
        "--temperature",
        type=amount,
        default=0.8,
        metavar="X",
        help="1: as the model says; less: more careful; 0: the likeliest; default: 0.8",
    )
    drawing.add_argument(
        "--top-k", type=positive, metavar="N", help="draw among the N likeliest; default: all"
    )
    drawing.add_argument(
        "--top-p", type=share, metavar="X", help="draw among the likeliest with this share"
    )
    drawing.add_argument(
        "--seed", type=natural, default=0, metavar="N", help="another one, another text; default: 0"
    )
    drawing.add_argument("--stop", metavar="TOKEN", help="a token at which the text ends")


def share(text: str) -> float:
    """A number above 0 and at most 1."""
    number = amount(text)
    if not 0 < number <= 1:
        raise ArgumentTypeError(f"{text!r} is not a share, above 0 and at most 1")
    return number


def _of_run(options: Namespace) -> bool:
    return Path(options.file).is_dir()


def _of_weights(options: Namespace) -> bool:
    return not _of_run(options)


def _draws_tokens(options: Namespace) -> bool:
    return options.temperature > 0


RULES: Final = (
    Rule("--diagram", _of_run, "is for the folder of a run"),
    Rule("--previous", _of_run, "is for the folder of a run"),
    Rule("--names", _of_weights, "is for --weights, and a run has names of its own"),
    Rule("--dtype", _of_weights, "is for --weights, and a run has been trained in one"),
    Rule("--seed", _draws_tokens, "draws tokens: --temperature above 0"),
    Rule("--top-k", _draws_tokens, "chooses among drawn tokens: --temperature above 0"),
    Rule("--top-p", _draws_tokens, "chooses among drawn tokens: --temperature above 0"),
)
