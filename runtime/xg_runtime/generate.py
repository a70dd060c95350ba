"""Text from a token model, one token at a time.

    for token in generate(Stepping(module, params, model), prompt, 200, Sampling(), stop=(2,)):

Two readers give the logits of what follows a text. `Stepping` reads every token once, by the step
of a decoder with its cache; `Rereading` reads the whole text again for each, by its forward pass.
Both give the same tokens.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

import numpy as np

from xg_runtime.errors import InputError, NonFiniteError
from xg_runtime.module import Array, Arrays, Module
from xg_runtime.random import fold, uniform

# How the next token is drawn from the logits of a model.
#
#     token = draw(logits, Sampling(temperature=0.8, top_k=40, top_p=0.95), chance)
#
# `chance` is a number in 0 … 1 that decides; with the same one comes the same token.


@dataclass(frozen=True)
class Sampling:
    """How a token is drawn: from softmax(logits / temperature) over the likeliest.

    Temperature 0 takes the likeliest. `top_k` leaves that many, then `top_p` leaves the fewest
    that together have this share of the probability; None leaves all.
    """

    temperature: float = 1.0
    top_k: int | None = None
    top_p: float | None = None
    seed: int = 0


def draw(logits: Array, sampling: Sampling, chance: float) -> int:
    """Return the token at which the summed probability passes `chance`; ties go to the first."""
    order = np.argsort(-logits, kind="stable")[: sampling.top_k]
    if sampling.temperature == 0:
        return int(order[0])
    summed = np.cumsum(np.exp((logits[order] - logits[order[0]]) / sampling.temperature))
    if sampling.top_p is not None:
        enough = int((summed < sampling.top_p * summed[-1]).sum()) + 1
        summed = summed[:enough]
    passed = int((summed <= chance * summed[-1]).sum())
    return int(order[min(passed, len(summed) - 1)])


Cache: TypeAlias = Any  # of the step's own kind


@dataclass(frozen=True)
class TokenModel:
    """How a program takes and gives tokens: ids [1, S] in, logits [1, S, V] out.

    `others` are the shapes of its other inputs, -1 for S: they get zeros (a loss needs targets).
    Of a text longer than `window` the model sees the end; only the first `tokens` ids are drawn.
    """

    window: int | None = None
    tokens: int | None = None
    ids: str = "ids"
    logits: str = "Z"
    others: Mapping[str, tuple[int, ...]] = field(default_factory=dict[str, tuple[int, ...]])


class StepModule(Protocol):
    """`empty_cache` and `step` of one program, on arrays."""

    def empty_cache(self, params: Arrays, **sizes: int) -> Cache:
        """Return the cache before the first step, for a number of texts and other free sizes."""
        ...

    def step(self, params: Arrays, cache: Cache, inputs: Arrays) -> tuple[Arrays, Cache]:
        """Return the outputs at the new positions, and the cache with them."""
        ...


class Reader(Protocol):
    """Reads a text piece by piece."""

    @property
    def model(self) -> TokenModel:
        """How the program takes and gives tokens."""
        ...

    def read(self, new: Array) -> Array:
        """Return the logits [V] of the token after the text so far and the tokens `new` [N]."""
        ...


@dataclass
class Rereading:
    """Reads the whole text again each time, by the forward pass."""

    module: Module
    params: Arrays
    model: TokenModel
    text: list[int] = field(default_factory=list[int])

    def read(self, new: Array) -> Array:
        """Return the logits of the next token."""
        self.text += new.tolist()
        ids = np.array([self.text[-(self.model.window or 0) :]], np.int64)
        inputs = {self.model.ids: ids}
        for name, shape in self.model.others.items():
            sizes = [ids.shape[1] if size < 0 else size for size in shape]
            inputs[name] = np.zeros(sizes, np.int64)
        outputs, _ = self.module.forward(self.params, inputs)
        return outputs[self.model.logits][0, -1]


@dataclass
class Stepping:
    """Reads each token once, and keeps a cache; starts again where the window moves on."""

    module: StepModule
    params: Arrays
    model: TokenModel
    text: list[int] = field(default_factory=list[int])
    cache: Cache = None

    def read(self, new: Array) -> Array:
        """Return the logits of the next token."""
        self.text += new.tolist()
        ids = new.astype(np.int64)
        moves = self.model.window is not None and len(self.text) > self.model.window
        if moves:
            ids = np.array(self.text[-(self.model.window or 0) :], np.int64)
        if moves or self.cache is None:
            self.cache = self.module.empty_cache(self.params)
        inputs = {self.model.ids: ids[None]}
        outputs, self.cache = self.module.step(self.params, self.cache, inputs)
        return outputs[self.model.logits][0, -1]


def generate(
    reader: Reader,
    prompt: Array,
    length: int,
    sampling: Sampling,
    stop: Collection[int] = (),
) -> Iterator[int]:
    """Yield at most `length` tokens that follow `prompt` [N]; end before a token of `stop`.

    Raises InputError for an empty prompt, NonFiniteError when the logits are not numbers.
    """
    if len(prompt) == 0:
        raise InputError("a prompt needs at least one token: found none")
    new = prompt
    for place in range(len(prompt), len(prompt) + length):
        logits = reader.read(new)[: reader.model.tokens].astype(np.float64)
        if np.isnan(logits).any() or np.isposinf(logits).any():
            name = reader.model.logits
            raise NonFiniteError(f"{name} is not finite", name, place)
        token = draw(logits, sampling, uniform(fold(sampling.seed, "sample", place)))
        if token in stop:
            return
        yield token
        new = np.array([token])
