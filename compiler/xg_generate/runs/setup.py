"""The setup of a training run: a module at the right sizes, its data, and references."""

from __future__ import annotations

import hashlib
from argparse import Namespace
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path

from xg.diagnostics.lazy_dataclass import dataclass, field
from xg.driver import Program
from xg.frontend.typed import Settings
from xg_generate.writer import Writer
from xg_runtime.batches import Source
from xg_runtime.corpus import Corpus
from xg_runtime.errors import InputError
from xg_runtime.module import Arrays, Module
from xg_runtime.sample import Sampling
from xg_runtime.tokenizer import Tokenizer


@dataclass(frozen=True)
class TrainingSetup:
    """A program, its generated module, and the data it is trained on.

    `parallel` is the program that ranks run; `program` is then the same without a plan, if there is
    such a program.
    """

    program: Program
    source: Source
    loss: str
    settings: Settings  # under which the program was compiled
    backend: str
    kernels: bool
    parts: int  # of a batch, one after the other: the microbatches of a pipeline
    references: Mapping[str, float] = field(default_factory=dict[str, float])
    text: tuple[Corpus, int] | None = None  # and the window
    parallel: Program | None = None
    sizes: Settings | None = None  # under which that is compiled, where not as the program is

    @property
    def trained_program(self) -> Program:
        """The program that runs."""
        return self.parallel or self.program

    @property
    def module(self) -> Module:
        """The generated module; of a parallel program that of a rank."""
        return self.trained_program.on_arrays(self.backend, kernels=self.kernels)

    @cached_property
    def facts(self) -> dict[str, object]:
        """The facts that a resumed run must find unchanged: a plan and its mesh may change.

        For a program written for one of several ranks those are of the program that they compute
        together.
        """
        code = self.program.on_one_device.source()
        facts: dict[str, object] = {"program": hashlib.sha256(code.encode()).hexdigest()}
        if self.text:
            facts["vocabulary"] = self.text[0].vocabulary.describe()
        return facts

    def keep_tokenizer(self, folder: Path) -> None:
        """Write a tokenizer that was given into the folder of the run; raises FileError."""
        if self.text and isinstance(self.text[0].vocabulary, Tokenizer):
            self.text[0].vocabulary.write(folder)

    def sample(self, params: Arrays, options: Namespace) -> str:
        """A prompt and what the model makes of it."""
        if self.text is None:
            raise InputError("a model of rows of arrays has no text to go on with")
        text, window = self.text
        how = Sampling(options.temperature, seed=options.seed)
        writer = Writer(self.program, params, text.vocabulary, window)
        return writer.write(options.prompt, options.sample, how)

    def place_of(self, tensor: str) -> str | None:
        """Where the file makes a tensor: ``line 12 of mlp.xg``, if it has a name there."""
        graphs = self.program.graphs
        graph, rest = graphs.main, tensor.split(".")
        while len(rest) > 1:
            calls = {step.path: step for step in graph.calls}
            if rest[0] not in calls:
                return None
            call = calls[rest[0]]
            graph, rest = graphs.graphs[call.callee], rest[1 if call.count is None else 2 :]
        spans = {str(value.name): value.span for value in graph.types if value.name}
        name = max((n for n in spans if f"{rest[-1]}_".startswith(f"{n}_")), key=len, default=None)
        return f"line {spans[name].line} of {spans[name].source.name}" if name else None
