"""A trained model from the folder of `xg train`: its program, compiled again, and parameters."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from xg.cli.opening import open_project
from xg.diagnostics.lazy_dataclass import dataclass
from xg.driver import compile_project
from xg_generate.runs.run_config import RunConfig
from xg_runtime import checkpoint
from xg_runtime.errors import CheckpointError, InputError
from xg_runtime.tokenizer import TOKENIZER, Tokenizer
from xg_runtime.tokens import Vocabulary, vocabulary_from

if TYPE_CHECKING:
    from xg.driver import Program
    from xg_runtime.checkpoint import Checkpoint


@dataclass(frozen=True)
class TrainedModel:
    """A model of text that was trained; of a longer text it has only ever seen a window."""

    program: Program
    params: dict[str, NDArray[Any]]
    window: int
    vocabulary: Vocabulary

    @classmethod
    def read(cls, folder: Path, *, diagram: str | None, previous: bool) -> TrainedModel:
        """Read a trained model; raises CheckpointError, InputError, DiagnosticError."""
        held = checkpoint.load(folder, previous=previous)
        if "vocabulary" not in held.facts:
            raise InputError(f"{folder} was not trained on text")
        program = trained_program(folder, diagram, held)
        window = held.facts["data"]["window"]
        return cls(program, held.params, window, _vocabulary(folder, held.facts["vocabulary"]))


def _vocabulary(folder: Path, description: dict[str, str]) -> Vocabulary:
    if description["level"] != "tokenizer":
        return vocabulary_from(description)
    tokenizer = Tokenizer.read(folder / TOKENIZER)
    if tokenizer.describe() != description:
        raise CheckpointError(f"{folder / TOKENIZER} is not the one that was trained with")
    return tokenizer


def trained_program(folder: Path, diagram: str | None, held: Checkpoint) -> Program:
    """The trained program, compiled again; raises CheckpointError if it has changed since."""
    recipe = RunConfig.read(folder)
    file = diagram or recipe.file_from(folder)
    program = compile_project(open_project(file), recipe.block, recipe.settings)
    if hashlib.sha256(program.source().encode()).hexdigest() != held.facts["program"]:
        raise CheckpointError(
            f"{file} does not give the program that was trained: it has changed since, or xg has; "
            "train again, or name the file as it was with --diagram"
        )
    return program
