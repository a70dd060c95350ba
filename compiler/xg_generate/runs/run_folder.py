"""Record the diagram of a run in its folder, and load the trained model again.

The diagram is compiled again when the model is needed, never loaded as code from the folder: a run
from elsewhere can be opened without trusting it.
"""

from __future__ import annotations

import hashlib
import json
import os
from argparse import Namespace
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from numpy.typing import NDArray

from xg.cli.opening import open_project
from xg.diagnostics.lazy_dataclass import asdict, dataclass, field
from xg.driver import compile_project
from xg_runtime import checkpoint, files
from xg_runtime.errors import CheckpointError, InputError
from xg_runtime.tokenizer import TOKENIZER, Tokenizer
from xg_runtime.tokens import Vocabulary, vocabulary_from

if TYPE_CHECKING:
    from xg.driver import Program
    from xg.frontend.typed import Settings
    from xg_generate.runs.setup import TrainingSetup
    from xg_runtime.checkpoint import Checkpoint


RUN_CONFIG: Final = "run.json"


@dataclass(frozen=True)
class RunConfig:
    """How the program of a run is compiled; `diagram` leads there from the run folder.

    `plan` and `mesh` say on which ranks it was begun; every checkpoint says it of itself.
    """

    diagram: str
    block: str | None
    settings: Settings
    plan: str | None = None
    mesh: Mapping[str, int] = field(default_factory=dict[str, int])

    @classmethod
    def of(cls, folder: Path, what: TrainingSetup, options: Namespace) -> RunConfig:
        """The recipe of a run in `folder` of the file that the user names."""
        file = options.file
        diagram = "-" if file == "-" else _relative_path(Path(file), folder)
        mesh = dict(what.parallel.mesh) if what.parallel else {}
        return cls(diagram, options.block, what.settings, options.plan, mesh)

    @classmethod
    def read(cls, folder: Path) -> RunConfig:
        """Read it from `folder`; raises FileError, and CheckpointError where it makes no sense."""
        path = folder / RUN_CONFIG
        try:
            config: Any = json.loads(files.read(path))
            told = config["diagram"], config["block"], config["settings"]
            ranks = config["plan"], config["mesh"]
            if not _makes_sense(*told, *ranks):
                raise ValueError
        except (ValueError, LookupError, TypeError, RecursionError) as error:
            raise CheckpointError(f"{path} is damaged: it does not say what was trained") from error
        return cls(*told, *ranks)

    def write(self, folder: Path) -> None:
        """Leave the recipe in `folder`; raises FileError."""
        text = json.dumps(asdict(self), ensure_ascii=False, indent=1) + "\n"
        files.write(folder / RUN_CONFIG, text.encode())

    def file_from(self, folder: Path) -> str:
        """The file as one would call it from the working folder."""
        return "-" if self.diagram == "-" else _relative_path(folder / self.diagram, Path())


def _makes_sense(
    diagram: object, block: object, settings: object, plan: object, mesh: object
) -> bool:
    """Whether what a file says has the types that it should."""
    named = isinstance(diagram, str) and isinstance(block, str | None)
    has_types = _holds(settings, str | int) and isinstance(plan, str | None) and _holds(mesh, int)
    return named and has_types


def _holds(table: object, kind: Any) -> bool:  # noqa: ANN401 - a union of types has no type
    """Whether something is a table of values of a kind."""
    if not isinstance(table, dict):
        return False
    return all(isinstance(value, kind) for value in cast("dict[object, object]", table).values())


def _relative_path(file: Path, folder: Path) -> str:
    """The path from a folder to a file, so that both can be moved together."""
    try:
        return Path(os.path.relpath(file.resolve(), folder.resolve())).as_posix()
    except ValueError:  # on two drives
        return file.resolve().as_posix()


# A trained model from the folder of `xg train`: its program, compiled again, and parameters.


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
