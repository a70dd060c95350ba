"""Words and their vectors, made from the texts that a model learns from (seed 003).

    lexicon = lexicon_of(texts, dims=50)
    lexicon.vectors[lexicon.ids(text, 12)]     the first 12 words of a text, [12, 50]

Neighbors are counted, the rows standardised, and their principal components taken. Of each count
the root is taken first: else "the film" drowns what the rare neighbors of a word say of it
(Lebret, Collobert 2014). A word that occurs often has a long vector, so all are brought to one
length, √D. The mean of the components is 0, and so is the vector of a word that is not known, and
of the places behind a short text.
"""

import hashlib
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Final

import numpy as np

from examples.sentiment.components import covariance, principal, project, standardised
from examples.sentiment.cooccurrence import cooccurrence
from examples.sentiment.words import words
from xg_runtime import files, tensorfile
from xg_runtime.errors import CheckpointError, InputError
from xg_runtime.module import Array

MOST: Final = 1000  # words with a vector: those that occur most often
LEAST: Final = 2  # times that a word occurs: one place tells little


@dataclass(frozen=True)
class Lexicon:
    """Words, the most frequent first, and vectors [V + 1, D] float32: the last of them is 0."""

    words: tuple[str, ...]
    vectors: Array = field(repr=False)

    def ids(self, text: str, length: int) -> Array:
        """Return the places [length] of a text's first words in `vectors`; V where none is."""
        known = [self._places.get(word, len(self.words)) for word in words(text)[:length]]
        return np.array(known + [len(self.words)] * (length - len(known)), np.int64)

    def unknown(self, text: str) -> list[str]:
        """Return the words of a text that have no vector."""
        return [word for word in words(text) if word not in self._places]

    @cached_property
    def _places(self) -> dict[str, int]:
        return {word: place for place, word in enumerate(self.words)}

    @cached_property
    def packed(self) -> bytes:
        """The file that `read` reads: safetensors, the words beside the vectors."""
        return tensorfile.pack({"vectors": self.vectors}, {"words": "\n".join(self.words)})

    @property
    def sha256(self) -> str:
        """The hash of the lexicon, which a resumed run must find equal."""
        return hashlib.sha256(self.packed).hexdigest()


def lexicon_of(texts: Iterable[str], dims: int, *, most: int = MOST) -> Lexicon:
    """Return the lexicon of texts; raises InputError where they have too few words for `dims`."""
    rows = [words(text) for text in texts]
    known = _frequent(rows, most)
    if len(known) <= dims:
        raise InputError(
            f"the reviews have {len(known)} words that occur more than once: for vectors of {dims} "
            f"numbers there must be more than {dims}"
        )
    places = {word: place for place, word in enumerate(known)}
    counts = cooccurrence([[places.get(word, -1) for word in row] for row in rows], len(known))
    profiles = standardised(np.sqrt(counts))
    found = principal(covariance(profiles), dims)
    vectors = _even(project(profiles, found))
    return Lexicon(known, np.vstack([vectors, np.zeros(dims)]).astype(np.float32))


def read(path: Path) -> Lexicon:
    """Return the lexicon in a file; raises FileError, and CheckpointError where it is damaged."""
    data = files.read(path)
    try:
        vectors = tensorfile.unpack(data)["vectors"]
        found = Lexicon(tuple(tensorfile.metadata(data)["words"].split("\n")), vectors)
        if vectors.ndim != 2 or len(vectors) != len(found.words) + 1:
            raise ValueError
    except (ValueError, LookupError) as error:
        raise CheckpointError(f"{path} is damaged: it holds no words with vectors") from error
    return found


def _frequent(rows: Sequence[Sequence[str]], most: int) -> tuple[str, ...]:
    counts = Counter(word for row in rows for word in row)
    ranked = sorted(counts, key=lambda word: (-counts[word], word))
    return tuple(word for word in ranked[:most] if counts[word] >= LEAST)


def _even(vectors: Array) -> Array:
    """Return vectors [V, D] of length √D; one without any length stays 0."""
    size = np.sqrt(np.mean(vectors**2, axis=1, keepdims=True))
    return np.divide(vectors, size, out=np.zeros_like(vectors), where=size > 0)
