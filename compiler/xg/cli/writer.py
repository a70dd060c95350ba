"""A trained model of text, asked for more of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

from numpy.typing import NDArray

from xg.cli.task import text_task
from xg.driver import Program
from xg.terminal import printable
from xg_runtime.errors import InputError
from xg_runtime.module import Module
from xg_runtime.sample import Sampling, TokenModel, sample
from xg_runtime.tokens import Vocabulary


@dataclass(frozen=True)
class Writer:
    """A generated module with its parameters, and what its tokens mean."""

    module: Module
    params: dict[str, NDArray[Any]]
    model: TokenModel
    vocabulary: Vocabulary

    @classmethod
    def of(
        cls,
        program: Program,
        params: dict[str, NDArray[Any]],
        window: int,
        vocabulary: Vocabulary,
    ) -> Writer:
        """The writer that a trained program makes; raises InputError where it is none."""
        task = text_task(program.graphs)
        if task is None or task.logits is None:
            block = program.graphs.main.block
            raise InputError(f"{block} writes no text: it does not give the logits of next tokens")
        model = TokenModel(window, task.ids, task.targets, task.logits)
        return cls(cast("Module", program.load()), params, model, vocabulary)

    def write(self, prompt: str, length: int, how: Sampling) -> str:
        """The prompt and `length` tokens after it, safe to print; raises InputError."""
        ids = self.vocabulary.encode(prompt.encode())
        made = sample(self.module, self.params, ids, length, self.model, how)
        text = self.vocabulary.decode(made)
        return "\n".join(map(printable, text.split("\n")))
