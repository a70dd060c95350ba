"""The text of tokens as they come: each piece as soon as no later token can change it."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from time import perf_counter
from typing import Final, Protocol

import numpy as np

from xg_runtime.module import Array

_UNFINISHED: Final = "\N{REPLACEMENT CHARACTER}"  # what the first bytes of a character give


class Decoder(Protocol):
    """A decoder from ids to text."""

    def decode(self, ids: Array) -> str:
        """Return the text of ids [N]."""
        ...


def pieces(tokens: Iterable[int], decoder: Decoder, prompt: Array) -> Iterator[str]:
    """Yield the text that follows `prompt` [N]; together the pieces are the text of all tokens.

    Tokens are decoded together with those before, for a space may depend on them.
    """
    ids: list[int] = prompt.tolist()
    before, shown = 0, len(ids)
    for token in tokens:
        ids.append(token)
        text, prefix = (_text(decoder, ids[before:end]) for end in (len(ids), shown))
        if len(text) > len(prefix) and not text.endswith(_UNFINISHED):
            yield text[len(prefix) :]
            before, shown = shown, len(ids)
    rest = _text(decoder, ids[before:])[len(_text(decoder, ids[before:shown])) :]
    if rest:
        yield rest


@dataclass
class Timed:
    """Tokens as they come, and when they came."""

    tokens: Iterator[int]
    began: float = field(default_factory=perf_counter)
    times: list[float] = field(default_factory=list[float])

    def __iter__(self) -> Iterator[int]:
        """Yield the tokens."""
        for token in self.tokens:
            self.times.append(perf_counter())
            yield token

    def report(self, prompt: int) -> str:
        """Return how fast it went: the tokens of the prompt until the first new one, the rest."""
        if not self.times:
            return "0 tokens"
        first = self.times[0] - self.began
        begun = f"after {first:.2f} s ({prompt} in the prompt)"
        if len(self.times) == 1:
            return f"1 token, {begun}"
        rest = self.times[-1] - self.times[0]
        said = f"{len(self.times)} tokens, the first {begun}"
        return said + (f", then {(len(self.times) - 1) / rest:,.1f} tokens/s" if rest else "")


def _text(decoder: Decoder, ids: list[int]) -> str:
    return decoder.decode(np.array(ids, np.int64))
