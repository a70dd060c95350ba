"""Vocabularies: text as bytes or as characters, to ids and back.

    ByteVocabulary()              256 ids, any data
    CharVocabulary("\n abc…")     one id for each character, in code point order
    IdVocabulary(50257)           ids of unknown meaning, written as numbers: "12 7 50256"
    vocabulary_of(text, level)    the one for a text; level is "byte" or "char"

Ids are held in the smallest unsigned type; batches widen them.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter
from typing import Any, Final, Literal, Protocol, TypeAlias, cast

import numpy as np

from xg_runtime import files
from xg_runtime.errors import FileError, InputError
from xg_runtime.module import Array

Level: TypeAlias = Literal["byte", "char"]


class Vocabulary(Protocol):
    """A bijection between pieces of text and ids 0 … size - 1."""

    @property
    def size(self) -> int:
        """How many ids there are."""
        ...

    def encode(self, text: bytes) -> Array:
        """Return the ids [N] of a text in UTF-8; raises InputError for what it does not hold."""
        ...

    def decode(self, ids: Array) -> str:
        """Return the text of ids [N]."""
        ...

    def describe(self) -> dict[str, str]:
        """Return what `vocabulary_from` rebuilds it from."""
        ...


@dataclass(frozen=True)
class ByteVocabulary:
    """Every byte is its own id."""

    size: int = 256

    def encode(self, text: bytes) -> Array:
        """Return the bytes of `text`."""
        return np.frombuffer(text, dtype=np.uint8)

    def decode(self, ids: Array) -> str:
        """Return the bytes as UTF-8; a sequence cut or broken becomes U+FFFD."""
        return ids.astype(np.uint8).tobytes().decode("utf-8", errors="replace")

    def describe(self) -> dict[str, str]:
        """Return the level."""
        return {"level": "byte"}


@dataclass(frozen=True)
class CharVocabulary:
    """The characters of a text; an id is the position in `characters`, which is sorted."""

    characters: str

    @property
    def size(self) -> int:
        """How many different characters there are."""
        return len(self.characters)

    def encode(self, text: bytes) -> Array:
        """Return the position of each character."""
        array = _code_points(self.characters)
        points = _code_points(as_text(text))
        ids = np.minimum(np.searchsorted(array, points), self.size - 1)
        unknown = points[array[ids] != points]
        if unknown.size:
            raise InputError(
                f"the model has no character {chr(unknown[0])!a}: use characters of the "
                "training text"
            )
        return ids.astype(np.min_scalar_type(self.size - 1))

    def decode(self, ids: Array) -> str:
        """Return the characters at `ids`."""
        return "".join(self.characters[i] for i in ids)

    def describe(self) -> dict[str, str]:
        """Return the level and the characters."""
        return {"level": "char", "characters": self.characters}


_DIGITS = 18  # of a number that 64 bits hold


@dataclass(frozen=True)
class IdVocabulary:
    """Ids of unknown text: they are written as numbers, with blanks between them."""

    size: int

    def encode(self, text: bytes) -> Array:
        """Return the numbers in `text`."""
        words = as_text(text).split()
        wrong = [word for word in words if not self._has(word)]
        if wrong:
            raise InputError(
                f"without a tokenizer, a text is numbers up to {self.size - 1}, such as '12 "
                f"7'; found {wrong[0][:_DIGITS]!a}"
            )
        return np.array([int(word) for word in words], np.int64)

    def _has(self, word: str) -> bool:
        is_number = word.isascii() and word.isdigit() and len(word) <= _DIGITS
        return is_number and int(word) < self.size

    def decode(self, ids: Array) -> str:
        """Return the numbers, each after a space, so that they can be added to a text."""
        return "".join(f" {number}" for number in ids)

    def describe(self) -> dict[str, str]:
        """Return the level and how many there are."""
        return {"level": "ids", "size": str(self.size)}


def vocabulary_of(text: bytes, level: Level) -> Vocabulary:
    """Return the vocabulary of `text`; raises InputError when characters are asked of non-UTF-8."""
    if level == "byte":
        return ByteVocabulary()
    return CharVocabulary("".join(sorted(set(as_text(text)))))


def vocabulary_from(description: dict[str, str]) -> Vocabulary:
    """Return the vocabulary that `describe` described."""
    if description["level"] == "byte":
        return ByteVocabulary()
    if description["level"] == "ids":
        return IdVocabulary(int(description["size"]))
    return CharVocabulary(description["characters"])


def as_text(text: bytes) -> str:
    """Decode a text from UTF-8; raises InputError if it is not UTF-8."""
    try:
        return text.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(f"the text is not UTF-8 at byte {error.start}: use bytes") from error


def _code_points(text: str) -> Array:
    return np.frombuffer(text.encode("utf-32-le"), dtype="<u4")


# A tokenizer as it is published: `tokenizer.json`, read by the package `tokenizers`.
#
# It is a vocabulary like those of `xg_runtime.tokens`, but its ids depend on more than one
# character.


TOKENIZER: Final = "tokenizer.json"
_CONFIGS: Final = ("generation_config.json", "config.json")


def ends(folder: Path) -> tuple[int, ...]:
    """Return the tokens that end a text, as the configs in a folder of weights say; or none."""
    for name in _CONFIGS:
        if (folder / name).is_file():
            try:
                config: Any = json.loads(files.read(folder / name))
                end = config.get("eos_token_id")
            except (ValueError, AttributeError, RecursionError) as error:
                raise InputError(f"{folder / name} must hold a JSON object") from error
            if end is not None:
                tokens = cast("list[int]", end if isinstance(end, list) else [end])
                return tuple(map(int, tokens))
    return ()


@dataclass(frozen=True)
class Tokenizer:
    """The tokens of a published model."""

    source: str
    inner: Any  # tokenizers.Tokenizer, which has no types of its own

    @classmethod
    def read(cls, path: Path) -> Tokenizer:
        """Read a file; raises FileError, and InputError where it makes no sense."""
        try:
            import tokenizers
        except ImportError as error:
            raise InputError(
                f"reading {path} needs the package tokenizers: pip install 'xg[generate]'"
            ) from error
        if not path.is_file():
            raise FileError(f"cannot read {path}: there is no such file")
        try:
            inner: Any = tokenizers.Tokenizer.from_file(str(path))
        except Exception as error:  # tokenizers raises Exception itself
            reason = str(error).splitlines()[0]
            raise InputError(f"{path} is not a tokenizer.json: {reason}") from error
        return cls(str(path), inner)

    @property
    def size(self) -> int:
        """How many ids there are."""
        return int(self.inner.get_vocab_size())

    def encode(self, text: bytes) -> Array:
        """Return the ids [N] of a text in UTF-8, with those that the tokenizer puts around it."""
        return np.array(self.inner.encode(as_text(text)).ids, np.int64)

    def decode(self, ids: Array) -> str:
        """Return the text of ids [N], without special ones."""
        return str(self.inner.decode(ids.tolist()))

    def describe(self) -> dict[str, str]:
        """Return what another tokenizer.json would differ in."""
        return {"level": "tokenizer", "sha256": hashlib.sha256(self._json()).hexdigest()}

    def write(self, folder: Path) -> None:
        """Keep it in the folder of a run; raises FileError."""
        files.write(folder / TOKENIZER, self._json())

    def _json(self) -> bytes:
        return str(self.inner.to_str()).encode()

    def token(self, text: str) -> int:
        """Return the id of one token; raises InputError if the vocabulary lacks it."""
        number = self.inner.token_to_id(text)
        if number is None:
            raise InputError(f"{self.source} has no token {text!r}")
        return int(number)


# The text of tokens as they come: each piece as soon as no later token can change it.


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
