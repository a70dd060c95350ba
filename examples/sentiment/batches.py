"""Batches of reviews as vectors of words, for a model that judges them."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import DTypeLike

from examples.sentiment.lexicon import Lexicon
from examples.sentiment.reviews import Reviews, split
from xg_runtime.batches import drawn, in_batches
from xg_runtime.module import Array, Arrays

CHUNK: Final = 512  # reviews judged at once in validation


@dataclass(frozen=True)
class ReviewSource:
    """Vectors [B, S, D] of the first S words of reviews, and their labels, [B] or [B, 1]."""

    reviews: Reviews = field(repr=False)
    lexicon: Lexicon = field(repr=False)
    length: int  # S
    batch_size: int
    target: tuple[int, ...]  # the axes of the labels after B: () or (1,)
    inputs: tuple[str, str]
    dtype: DTypeLike = np.float32
    seed: int = 0
    unit: str = "reviews"

    @property
    def batched(self) -> frozenset[str]:
        """Both inputs have rows."""
        return frozenset(self.inputs)

    @property
    def items(self) -> int:
        """Reviews in a batch."""
        return self.batch_size

    @cached_property
    def _parts(self) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
        """Ids [N, S] and labels [N] to train on, and for validation."""
        train, held = split(self.reviews, CHUNK)
        return self._numbered(train), self._numbered(held)

    def batch(self, step: int) -> Arrays:
        """Return B reviews, drawn with replacement."""
        ids, labels = self._parts[0]
        rows = drawn(self.seed, step, self.batch_size, len(labels))
        return self._taken(ids[rows], labels[rows])

    def validation(self) -> Iterator[Arrays]:
        """Return the held reviews in order."""
        ids, labels = self._parts[1]
        for rows in in_batches(list(range(len(labels))), CHUNK):
            yield self._taken(ids[rows], labels[rows])

    def describe(self) -> dict[str, str | int]:
        """Return file, words, batch size, length and seed."""
        return {
            "sha256": self.reviews.sha256,
            "lexicon": self.lexicon.sha256,
            "batch": self.batch_size,
            "words": self.length,
            "seed": self.seed,
        }

    def _numbered(self, part: Reviews) -> tuple[Array, Array]:
        ids = np.stack([self.lexicon.ids(text, self.length) for text in part.texts])
        return ids, np.array(part.labels)

    def _taken(self, ids: Array, labels: Array) -> Arrays:
        vectors = self.lexicon.vectors[ids].astype(self.dtype)
        targets = labels.astype(self.dtype).reshape(len(labels), *self.target)
        return dict(zip(self.inputs, (vectors, targets), strict=True))
