"""A model of text, asked for more of it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Protocol

from xg.cli.computing import placed, placed_step
from xg.diagnostics.lazy_dataclass import dataclass, field
from xg.diagnostics.terminal import printable
from xg.driver import Program
from xg.ir.dim import Dim
from xg.ir.graph import Value
from xg.ir.size_checks import size_constraints
from xg_runtime.errors import InputError
from xg_runtime.generate import Reader, Rereading, Stepping, TokenModel, generate
from xg_runtime.module import Array
from xg_runtime.sample import Sampling
from xg_runtime.stream import pieces


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
        whole = placed(self.program, self.backend, self.where, kernels=self.kernels)
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
        f"{main.block} does not go on with a text: it takes {listed}, and no token ids; a block "
        "that does takes ids [B, S] in V, and gives logits [B, S, V]"
    )


def token_model(program: Program, step: Program, window: int | None, tokens: int) -> TokenModel:
    """How a program takes and gives tokens; raises InputError where it does not."""
    main, graph = program.graphs.main, step.graphs.main
    taken = [value for value in graph.inputs if graph.types[value].range is not None]
    types = [graph.types[value] for value in taken]
    (logits,) = graph.outputs
    if len(graph.inputs) != 1 or not types or len(types[0].shape) != 2:
        listed = ", ".join(f"{value.name} {graph.types[value]}" for value in graph.inputs)
        raise InputError(f"{main.block} does not go on with one text [B, S]: it takes {listed}")
    range_ = types[0].range
    if range_ is None or graph.types[logits].shape != (*types[0].shape, range_):
        raise InputError(f"{main.block} does not give the logits of next tokens")
    numbers = program.graphs.main.sizes.bind(program.graphs.numbers)
    held = range_.evaluate(numbers)
    if held < tokens:
        raise InputError(f"{main.block} knows {held} tokens, and the tokenizer has {tokens}")
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
            raise InputError(f"nothing says how large {dim} of {value.name} is")
        sizes.append(-1 if dim == length else 1 if dim == batch else dim.evaluate(numbers))
    return tuple(sizes)
