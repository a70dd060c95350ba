"""`xg sample`: text from a model that `xg train` has trained."""

from __future__ import annotations

import hashlib
from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import TYPE_CHECKING

from xg.cli.console import Console
from xg.cli.exits import FINE
from xg.cli.quantities import amount, natural, positive
from xg.cli.threads import add_threads, limit_threads

if TYPE_CHECKING:
    from xg.cli.writer import Writer
    from xg.driver import Program
    from xg_runtime.checkpoint import Checkpoint

EXAMPLE = "xg sample runs/transformer --prompt 'The ' --length 400 --temperature 0.8"


def add_arguments(parser: ArgumentParser) -> None:
    """A run, and how its model is asked."""
    parser.add_argument("folder", metavar="RUN", type=Path, help="the folder of a run (its --out)")
    parser.add_argument(
        "--prompt", default="The ", metavar="TEXT", help="what the text begins with"
    )
    parser.add_argument("--length", type=natural, default=200, metavar="N", help="tokens to add")
    parser.add_argument(
        "--temperature",
        type=amount,
        default=0.8,
        metavar="X",
        help="1: as the model says; less: more careful; 0: the likeliest; default: 0.8",
    )
    parser.add_argument(
        "--top-k", type=positive, metavar="N", help="draw among the N likeliest; default: all"
    )
    parser.add_argument(
        "--seed", type=int, default=0, metavar="N", help="another one, another text"
    )
    parser.add_argument(
        "--diagram", metavar="FILE", help="where the .xg file is now, if it was moved"
    )
    parser.add_argument(
        "--previous", action="store_true", help="from the checkpoint before the newest"
    )
    add_threads(parser)


def run(options: Namespace, console: Console) -> int:
    """Write text from a checkpoint."""
    limit_threads(options.threads)
    from xg_runtime.sample import Sampling

    how = Sampling(options.temperature, options.top_k, options.seed)
    console.say(_writer(options).write(options.prompt, options.length, how))
    return FINE


def _writer(options: Namespace) -> Writer:
    """The model that a run has trained; raises CheckpointError, InputError, DiagnosticError."""
    from xg.cli.writer import Writer
    from xg_runtime import checkpoint
    from xg_runtime.errors import FileError, InputError
    from xg_runtime.tokens import vocabulary_from

    folder: Path = options.folder
    if not folder.is_dir():
        raise FileError(f"cannot read {folder}: there is no such folder; xg train writes one")
    held = checkpoint.load(folder, previous=options.previous)
    if "vocabulary" not in held.facts:
        raise InputError(f"{folder} was not trained on text")
    program = _program(options, held)
    window = held.facts["data"]["window"]
    return Writer.of(program, held.params, window, vocabulary_from(held.facts["vocabulary"]))


def _program(options: Namespace, held: Checkpoint) -> Program:
    """What was trained, compiled again; raises CheckpointError if it is not the same any more."""
    from xg.cli.arguments import open_project
    from xg.cli.recipe import Recipe
    from xg.driver import compile_project
    from xg_runtime.errors import CheckpointError

    recipe = Recipe.read(options.folder)
    file = options.diagram or recipe.file_from(options.folder)
    program = compile_project(open_project(file), recipe.block, recipe.settings)
    if hashlib.sha256(program.source().encode()).hexdigest() != held.facts["program"]:
        raise CheckpointError(
            f"{file} does not give the program that was trained: it has changed since, or xg has; "
            "train again, or name the file as it was with --diagram"
        )
    return program
