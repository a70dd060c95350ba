"""A model that `xg train` has made of reviews, asked about others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp
from pathlib import Path

import numpy as np

from xg.cli.training.load_run import trained_program
from xg.cli.training.reviewing import judging, sizes
from xg.cli.training.setup import LEXICON
from xg.cli.training.task import ReviewTask
from xg_runtime import checkpoint, lexicon
from xg_runtime.errors import CheckpointError, FileError, InputError
from xg_runtime.lexicon import Lexicon
from xg_runtime.module import Array, Arrays, Module


@dataclass(frozen=True)
class Judge:
    """A module with its parameters, and the words it knows; of a text it reads `length` words."""

    module: Module
    params: Arrays
    task: ReviewTask
    lexicon: Lexicon
    length: int

    @classmethod
    def read(
        cls, folder: Path, *, diagram: str | None, previous: bool, backend: str, kernels: bool
    ) -> Judge:
        """What a run has trained.

        Raises FileError, CheckpointError, InputError, DiagnosticError.
        """
        if not folder.is_dir():
            raise FileError(f"cannot read {folder}: it is not the folder of a run of xg train")
        held = checkpoint.load(folder, previous=previous)
        if "lexicon" not in held.facts["data"]:
            raise InputError(f"{folder} was not trained on reviews")
        program = trained_program(folder, diagram, held)
        task = judging(program)
        words = lexicon.read(folder / LEXICON)
        if words.sha256 != held.facts["data"]["lexicon"]:
            raise CheckpointError(f"{folder / LEXICON} has changed since the training")
        module = program.on_arrays(backend, kernels=kernels)
        return cls(module, held.params, task, words, sizes(program, task)[0])

    def ask(self, texts: Sequence[str]) -> list[float]:
        """How sure it is of each text that it is positive, in 0 … 1."""
        ids = np.stack([self.lexicon.ids(text, self.length) for text in texts])
        dtype = next(iter(self.params.values())).dtype
        # The block also takes the truth, for its loss; what it says does not depend on it.
        truth = np.zeros((len(texts), *(1 for _ in self.task.truth_axes)), dtype)
        vectors = self.lexicon.vectors[ids].astype(dtype)
        inputs = {self.task.vectors: vectors, self.task.truth: truth}
        outputs, _ = self.module.forward(self.params, inputs)
        return [self._probability(each) for each in outputs[self.task.said].reshape(-1)]

    def _probability(self, said: Array) -> float:
        return 1 / (1 + exp(-float(said))) if self.task.is_logit else float(said)
