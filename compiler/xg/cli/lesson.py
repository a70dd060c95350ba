"""What a training run needs: a module at the right sizes, its data, and what to compare with."""

from __future__ import annotations

import hashlib
from argparse import Namespace
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from numpy.typing import NDArray

from xg.cli.arguments import open_project, settings_of
from xg.cli.given import at_sizes_of, expected_inputs
from xg.cli.task import TextTask, loss_of, text_task
from xg.cli.writer import Writer
from xg.dim import Dim
from xg.driver import Program, Settings, compile_project, declared_dims
from xg.graph import Call
from xg.project import Project
from xg_runtime import arrays, corpus, files
from xg_runtime.batches import ArraySource, Source, TextSource
from xg_runtime.corpus import Corpus
from xg_runtime.errors import InputError
from xg_runtime.expect import fit
from xg_runtime.module import Module
from xg_runtime.sample import Sampling

WINDOW = 64  # tokens, where nothing says otherwise
HELD = 10  # of so many rows one is kept for validation

Arrays = dict[str, NDArray[Any]]


@dataclass(frozen=True)
class Lesson:
    """A program, its generated module, and the data it learns from."""

    program: Program
    source: Source
    loss: str
    settings: Settings  # under which the program was compiled
    backend: str
    kernels: bool
    references: Mapping[str, float] = field(default_factory=dict[str, float])
    text: tuple[Corpus, int] | None = None  # and the window

    @property
    def module(self) -> Module:
        """The generated module."""
        return self.program.on_arrays(self.backend, kernels=self.kernels)

    @property
    def facts(self) -> dict[str, object]:
        """What a resumed run must find unchanged."""
        code = self.program.source()
        known: dict[str, object] = {"program": hashlib.sha256(code.encode()).hexdigest()}
        if self.text:
            known["vocabulary"] = self.text[0].vocabulary.describe()
        return known

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
            calls = {step.path: step for step in graph.steps if isinstance(step, Call)}
            if rest[0] not in calls:
                return None
            call = calls[rest[0]]
            graph, rest = graphs.graphs[call.callee], rest[1 if call.count is None else 2 :]
        spans = {str(value.name): value.span for value in graph.types if value.name}
        name = max((n for n in spans if f"{rest[-1]}_".startswith(f"{n}_")), key=len, default=None)
        return f"line {spans[name].line} of {spans[name].source.name}" if name else None


def lesson(options: Namespace) -> Lesson:
    """What FILE and the options ask for; raises DiagnosticError, InputError, FileError."""
    project = open_project(options.file)
    settings = settings_of(options)
    draft = compile_project(project, options.block, settings)
    task = text_task(draft.graphs)
    if task is not None and (options.data is None or options.data.suffix not in arrays.ENDINGS):
        return _of_text(project, draft, task, options)
    if options.data is None:
        raise InputError(f"{draft.graphs.main.block} is not trained on text: --data names an .npz")
    return _of_rows(project, draft, options)


def _of_text(project: Project, draft: Program, task: TextTask, options: Namespace) -> Lesson:
    text = corpus.load(options.data, options.level)
    numbers = draft.graphs.main.sizes.bind({})
    window = options.seq or numbers.get(task.window.name or "", WINDOW)
    wanted = {task.window: window, task.batch: options.batch, task.vocabulary: text.vocabulary.size}
    known = {dim.name: n for dim, n in wanted.items() if dim.name in declared_dims(project)}
    settings: Settings = {**known, **settings_of(options)}
    program = compile_project(project, options.block, settings)
    held = _number(program, task.vocabulary)
    if held < text.vocabulary.size:
        raise InputError(
            f"the text has {text.vocabulary.size} kinds of tokens, and {task.ids} takes {held}: "
            f"--set {task.vocabulary}={text.vocabulary.size} makes room"
        )
    names = (task.ids, task.targets)
    source = TextSource(text, options.batch, window, options.seed, names)
    references = {"unigram entropy": text.entropy}
    loss = loss_of(program.graphs, options.loss)
    of_text = (text, window)
    how = options.backend, options.kernels
    return Lesson(program, source, loss, settings, *how, references, of_text)


def _of_rows(project: Project, draft: Program, options: Namespace) -> Lesson:
    found = arrays.read(options.data)
    program = at_sizes_of(found, project, options.block, settings_of(options))
    source_name = str(options.data)
    rows = fit(found, expected_inputs(program), dtype=options.dtype, source=source_name)
    main = draft.graphs.main
    first = main.types[main.inputs[0]].shape[:1]
    batched = frozenset(
        str(value.name) for value in main.inputs if main.types[value].shape[:1] == first
    )
    if not first:
        raise InputError(f"{main.inputs[0].name} has no axis of rows to draw from")
    sha256 = hashlib.sha256(files.read(options.data)).hexdigest()
    held = len(rows[str(main.inputs[0].name)]) // HELD
    source = ArraySource(rows, batched, options.batch, sha256, held, options.seed)
    loss = loss_of(program.graphs, options.loss)
    how = options.backend, options.kernels
    return Lesson(program, source, loss, settings_of(options), *how)


def _number(program: Program, dim: Dim) -> int:
    """A size that has a number by now."""
    return dim.evaluate(program.graphs.main.sizes.bind({}))
