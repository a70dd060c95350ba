"""Record the diagram of a run in its folder, and load the trained model again.

The diagram is compiled again when the model is needed, never loaded as code from the folder: a run
from elsewhere can be opened without trusting it.
"""

from __future__ import annotations

import hashlib
import json
import os
from argparse import Namespace
from collections.abc import Collection, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol, cast

from numpy.typing import NDArray

from xg.cli.computing import place_module, placed_step
from xg.cli.opening import open_project
from xg.diagnostics.lazy_dataclass import asdict, dataclass, field
from xg.diagnostics.terminal import printable
from xg.driver import Program, compile_project
from xg.frontend.typed import Settings
from xg.ir.dim import Dim
from xg.ir.graph import IRProgram, Value
from xg.ir.labels import value_names
from xg.ir.size_checks import size_constraints
from xg_runtime import checkpoint, files
from xg_runtime.batches import Corpus, Source
from xg_runtime.errors import CheckpointError, InputError
from xg_runtime.generate import Reader, Rereading, Sampling, Stepping, TokenModel, generate
from xg_runtime.module import Array, Arrays, Module
from xg_runtime.tokens import TOKENIZER, Tokenizer, Vocabulary, pieces, vocabulary_from

if TYPE_CHECKING:
    from xg_runtime.checkpoint import Checkpoint


# A model of text, asked for more of it.


class Codec(Protocol):
    """Text to tokens and back: a vocabulary of a run, or a published tokenizer."""

    @property
    def size(self) -> int:
        """How many tokens there are."""
        ...

    def encode(self, text: bytes) -> Array:
        """The ids of a text in UTF-8."""
        ...

    def decode(self, ids: Array) -> str:
        """The text of ids."""
        ...


@dataclass(frozen=True)
class Writer:
    """A program with its parameters, and what its tokens mean.

    `window` is how much of a text it was made to see, None for all. Without `cached` the whole
    text is read again for each token. `where` names the device, if it is not the usual one.
    """

    program: Program
    params: dict[str, Array]
    codec: Codec
    window: int | None = None
    backend: str | None = None
    cached: bool = True
    kernels: bool = False
    where: Mapping[str, str] = field(default_factory=dict[str, str])

    def write(self, prompt: str, length: int, how: Sampling) -> str:
        """The prompt and `length` tokens after it, safe to print; raises InputError."""
        ids = self.codec.encode(prompt.encode())
        text_pieces = pieces(self.tokens(ids, length, how), self.codec, ids)
        return shown(prompt) + "".join(map(shown, text_pieces))

    def tokens(
        self, prompt: Array, length: int, how: Sampling, stop: Collection[int] = ()
    ) -> Iterator[int]:
        """The continuation of a prompt [N], token by token; raises InputError, DiagnosticError."""
        return generate(self._reader(), prompt, length, how, stop)

    def _reader(self) -> Reader:
        step = self.program.step()
        model = token_model(self.program, step, self.window, self.codec.size)
        if self.cached:
            module = placed_step(step, self.backend, self.where, kernels=self.kernels)
            ready = getattr(module, "prepared", dict)  # modules on tensors do it themselves
            return Stepping(module, ready(self.params), model)
        whole = place_module(self.program, self.backend, self.where, kernels=self.kernels)
        return Rereading(whole, self.params, model)


def shown(text: str) -> str:
    """Text safe to print, line by line."""
    return "\n".join(map(printable, text.split("\n")))


def refuse_other_than_text(program: Program) -> None:
    """InputError for a block that takes no token ids, whatever its parameters are."""
    main = program.graphs.main
    if any(main.types[value].range is not None for value in main.inputs):
        return
    listed = ", ".join(f"{value.name} {main.types[value]}" for value in main.inputs) or "no input"
    raise InputError(
        f"{main.block} cannot continue a text: it takes {listed}, but no token ids; a block "
        "that can takes ids [B, S] in V, and gives logits [B, S, V]"
    )


def token_model(program: Program, step: Program, window: int | None, tokens: int) -> TokenModel:
    """How a program takes and gives tokens; raises InputError where it does not."""
    main, graph = program.graphs.main, step.graphs.main
    taken = [value for value in graph.inputs if graph.types[value].range is not None]
    types = [graph.types[value] for value in taken]
    (logits,) = graph.outputs
    if len(graph.inputs) != 1 or not types or len(types[0].shape) != 2:
        listed = ", ".join(f"{value.name} {graph.types[value]}" for value in graph.inputs)
        raise InputError(
            f"{main.block} cannot continue a text: it must take one input of ids [B, S], and "
            f"takes {listed}"
        )
    range_ = types[0].range
    if range_ is None or graph.types[logits].shape != (*types[0].shape, range_):
        raise InputError(
            f"{main.block} must give logits [B, S, V] of the next tokens; it gives "
            f"{graph.types[logits]}"
        )
    numbers = program.graphs.main.sizes.bind(program.graphs.numbers)
    held = range_.evaluate(numbers)
    if held < tokens:
        raise InputError(
            f"{main.block} knows {held} tokens, but the tokenizer has {tokens}: use the "
            "tokenizer of the model, or --set the number of its tokens"
        )
    batch, length = types[0].shape
    others = {
        str(value.name): _blank(value, main.types[value].shape, batch, length, numbers)
        for value in main.inputs
        if value.name != taken[0].name
    }
    return TokenModel(
        window=_least(window, longest(step)),
        tokens=tokens,
        ids=str(taken[0].name),
        logits=graph.output_names[0],
        others=others,
    )


def longest(step: Program) -> int | None:
    """How many positions a step can be asked for: as many as its tables have rows."""
    graphs = step.graphs
    numbers = graphs.main.sizes.bind(graphs.numbers)
    past = {dim for state in graphs.main.states for dim in graphs.main.types[state.past].shape}
    limit: int | None = None
    for condition in size_constraints(graphs):
        names = set(condition.smaller.symbols())
        if any(dim.name in names for dim in past) and not names & numbers.keys():
            spare = condition.smaller.substitute(dict.fromkeys(names, condition.smaller * 0))
            limit = _least(limit, (condition.larger - spare).evaluate(numbers))
    return limit


def _least(first: int | None, second: int | None) -> int | None:
    numbers = [number for number in (first, second) if number is not None]
    return min(numbers, default=None)


def _blank(
    value: Value, shape: tuple[Dim, ...], batch: Dim, length: Dim, numbers: dict[str, int]
) -> tuple[int, ...]:
    """The shape of an input that does not matter for the logits, -1 for the positions."""
    sizes: list[int] = []
    for dim in shape:
        is_known = all(name in numbers for name in dim.symbols())
        if dim != length and dim != batch and not is_known:
            raise InputError(f"{value.name} has no number for {dim}: --set {dim}=…")
        sizes.append(-1 if dim == length else 1 if dim == batch else dim.evaluate(numbers))
    return tuple(sizes)


# The setup of a training run: a module at the right sizes, its data, and references.


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
        """Return the generated module; for a parallel program, the module of a rank."""
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
            raise InputError(
                "this model was trained on rows of arrays, so it has no text to continue: "
                "leave out --sample"
            )
        text, window = self.text
        how = Sampling(options.temperature, seed=options.seed)
        writer = Writer(self.program, params, text.vocabulary, window)
        return writer.write(options.prompt, options.sample, how)

    def place_of(self, tensor: str) -> str | None:
        """Find where the file makes a tensor: ``line 12 of mlp.xg``; None for an unknown name.

        The name is that of the generated code, where an edge without a label is called by what
        makes it. The code of a rank has names that the program of one device lacks, so both are
        asked.
        """
        programs = (self.trained_program.graphs, self.program.graphs)
        return next((place for each in programs if (place := place_in(each, tensor))), None)


def place_in(program: IRProgram, tensor: str) -> str | None:
    """Find the line that makes a tensor of a program, by its path: ``layers.0.attn.Q``."""
    graph, rest = program.main, tensor.split(".")
    while len(rest) > 1:
        calls = {step.path: step for step in graph.calls}
        inner = rest[1 + rest[1].isdecimal() :]  # without the number of a round
        if rest[0] not in calls or not inner:
            return None
        graph, rest = program.graphs[calls[rest[0]].callee], inner
    names = {value: str(value.name) for value in graph.types if value.name}
    names |= value_names(program, graph.key)
    spans = {name: value.span for value, name in names.items()}
    name = max((n for n in spans if f"{rest[-1]}_".startswith(f"{n}_")), key=len, default=None)
    return f"line {spans[name].line} of {spans[name].source.name}" if name else None


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
            raise InputError(
                f"{folder} was not trained on text: only a run on tokens can continue a text"
            )
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
