"""The classifier as xg sees it: a compiled diagram, and which of its tensors is which.

Any block can be one that takes vectors [B, S, D] and the truth, [B] or [B, 1], and gives a loss and
the output that the loss compares with the truth.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Final

import xg
from xg_runtime import files
from xg_runtime.checkpoint import Checkpoint
from xg_runtime.errors import CheckpointError, InputError

MODEL: Final = "model.json"  # in the folder of a run
LOSS: Final = "loss"


@dataclass(frozen=True)
class ModelConfig:
    """How the program of a run is compiled; `logits` says that its output is one, not in 0 … 1."""

    diagram: str
    block: str | None = None
    sizes: Mapping[str, int] = field(default_factory=dict[str, int])
    options: Mapping[str, str] = field(default_factory=dict[str, str])
    logits: bool = False

    @classmethod
    def read(cls, folder: Path) -> ModelConfig:
        """The configuration of a run; raises FileError, CheckpointError."""
        path = folder / MODEL
        try:
            config = cls(**json.loads(files.read(path)))
        except (ValueError, TypeError) as error:
            raise CheckpointError(f"{path} is damaged: it does not say what was trained") from error
        return replace(config, diagram=_path(folder / config.diagram, Path()))

    def write(self, folder: Path) -> None:
        """Write the configuration into the folder of a run; raises FileError."""
        from_folder = {**asdict(self), "diagram": _path(Path(self.diagram), folder)}
        text = json.dumps(from_folder, ensure_ascii=False, indent=1) + "\n"
        files.write(folder / MODEL, text.encode())


@dataclass(frozen=True)
class Classifier:
    """A compiled program, the names of its tensors, and its sizes: `length` words of `width`."""

    program: xg.Program
    vectors: str
    truth: str
    output: str
    logits: bool
    length: int
    width: int

    @property
    def truth_axes(self) -> tuple[int, ...]:
        """The axes of the truth behind the batch: () or (1,)."""
        return (1,) * (len(self.program.inputs[self.truth].shape) - 1)

    @property
    def threshold(self) -> float:
        """The output above which a review counts as positive."""
        return 0.0 if self.logits else 0.5

    @property
    def sha256(self) -> str:
        """The hash of the generated program, which a resumed run must find equal."""
        return hashlib.sha256(self.program.source().encode()).hexdigest()


def compiled(config: ModelConfig) -> Classifier:
    """The classifier of a configuration; raises DiagnosticError, InputError."""
    program = xg.compile(config.diagram, config.block, sizes=config.sizes, options=config.options)
    by_rank = {len(spec.shape): name for name, spec in program.inputs.items()}
    outputs = [name for name in program.outputs if name != LOSS]
    truth = by_rank.get(1) or by_rank.get(2)
    is_column = truth is None or program.inputs[truth].shape[1:] in ((), (1,))
    if len(program.inputs) != 2 or 3 not in by_rank or truth is None or not is_column:
        raise InputError("the block takes no vectors [B, S, D] and truth [B] or [B, 1]")
    if len(outputs) != 1 or LOSS not in program.outputs:
        raise InputError(f"the block does not give {LOSS} and one output that it compares")
    _, length, width = program.inputs[by_rank[3]].shape
    sizes = _number(length, "words"), _number(width, "numbers of a word")
    return Classifier(program, by_rank[3], truth, outputs[0], config.logits, *sizes)


def compiled_again(folder: Path, checkpoint: Checkpoint) -> Classifier:
    """The classifier of a run; raises CheckpointError where its diagram has changed since."""
    config = ModelConfig.read(folder)
    classifier = compiled(config)
    if classifier.sha256 != checkpoint.facts["program"]:
        raise CheckpointError(f"{config.diagram} has changed since the training, or xg has")
    return classifier


def _number(size: int | str, what: str) -> int:
    if isinstance(size, str):
        raise InputError(f"nothing says how many {what} there are: --set {size}=N does")
    return size


def _path(file: Path, folder: Path) -> str:
    """The path from a folder to a file, so that both can be moved together."""
    try:
        return Path(os.path.relpath(file.resolve(), folder.resolve())).as_posix()
    except ValueError:  # on two drives
        return file.resolve().as_posix()
