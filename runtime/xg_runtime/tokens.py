"""Vocabularies: text as bytes or as characters, to ids and back.

    ByteVocabulary()              256 ids, any data
    CharVocabulary("\\n abc…")     one id for each character, in code point order
    IdVocabulary(50257)           ids of unknown meaning, written as numbers: "12 7 50256"
    vocabulary_of(text, level)    the one for a text; level is "byte" or "char"

Ids are held in the smallest unsigned type; batches widen them.
"""

from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias

import numpy as np

from xg_runtime.errors import InputError
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
