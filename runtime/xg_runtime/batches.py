"""Where training data comes from: batches that depend on seed and step only.

    TextSource(corpus, batch=8, window=64, ...)     next-token batches from a text
    ArraySource(arrays, batched={"X", "t"}, ...)    rows of arrays, for every other task

A source keeps no position: `batch(step)` is a pure function, so resuming needs only the step.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from xg_runtime.corpus import Corpus
from xg_runtime.errors import InputError
from xg_runtime.module import Array, Arrays
from xg_runtime.random import fold


class Source(Protocol):
    """The data of a training loop."""

    @property
    def unit(self) -> str:
        """The name of one item: "tokens" or "rows"."""
        ...

    @property
    def items(self) -> int:
        """How many items a batch holds."""
        ...

    @property
    def batched(self) -> frozenset[str]:
        """The inputs that have a row for each row of a batch, along axis 0."""
        ...

    def batch(self, step: int) -> Arrays:
        """Return the inputs of training step `step`, which counts from 0."""
        ...

    def validation(self) -> Iterator[Arrays]:
        """Return the validation batches, always the same; none is allowed."""
        ...

    def describe(self) -> dict[str, str | int]:
        """Return what a resumed run must find equal."""
        ...


@dataclass(frozen=True)
class TextSource:
    """Windows of a text: ids [B, S] and, one token later, targets [B, S], both int64."""

    corpus: Corpus
    batch_size: int
    window: int
    seed: int = 0
    inputs: tuple[str, str] = ("ids", "t")
    validation_batches: int = 8
    unit: str = "tokens"

    def __post_init__(self) -> None:
        """Refuse a window that the text cannot fill."""
        if len(self.corpus.train) <= self.window:
            raise InputError(
                f"a window of {self.window} tokens needs a longer text: only "
                f"{len(self.corpus.train)} tokens are there to train on"
            )

    @property
    def batched(self) -> frozenset[str]:
        """Return the names of both inputs, since each has a row for each row of a batch."""
        return frozenset(self.inputs)

    @property
    def items(self) -> int:
        """Tokens in a batch: B · S."""
        return self.batch_size * self.window

    def batch(self, step: int) -> Arrays:
        """Return B windows that begin anywhere in the training tokens."""
        places = len(self.corpus.train) - self.window
        return self._windows(self.corpus.train, drawn(self.seed, step, self.batch_size, places))

    def validation(self) -> Iterator[Arrays]:
        """Return batches of windows spread evenly over the validation tokens."""
        places = max(len(self.corpus.validation) - self.window, 0)
        count = min(self.validation_batches * self.batch_size, places)
        starts = [place * places // count for place in range(count)]
        for rows in in_batches(starts, self.batch_size):
            yield self._windows(self.corpus.validation, rows)

    def describe(self) -> dict[str, str | int]:
        """Return text, batch size, window and seed."""
        return {
            "sha256": self.corpus.sha256,
            "training tokens": len(self.corpus.train),
            "batch": self.batch_size,
            "window": self.window,
            "seed": self.seed,
        }

    def _windows(self, tokens: Array, starts: list[int]) -> Arrays:
        at = np.array(starts)[:, None] + np.arange(self.window + 1)
        window = tokens[at].astype(np.int64)
        ids, targets = self.inputs
        return {ids: window[:, :-1].copy(), targets: window[:, 1:].copy()}


@dataclass(frozen=True)
class ArraySource:
    """Rows drawn from arrays: those in `batched` along axis 0, the others whole in every batch.

    The last `held` rows are for validation. Arrays must already fit the program (`expect.fit`).
    """

    arrays: Arrays = field(repr=False)
    batched: frozenset[str]
    batch_size: int
    sha256: str
    held: int = 0
    seed: int = 0
    unit: str = "rows"

    def __post_init__(self) -> None:
        """Refuse arrays of different length, and too few rows."""
        lengths = {len(self.arrays[name]) for name in sorted(self.batched)}
        if len(lengths) != 1:
            raise InputError(
                f"{', '.join(sorted(self.batched))} must have the same number of rows; found "
                f"{', '.join(map(str, sorted(lengths)))}"
            )
        if self._rows < 1:
            raise InputError(f"no rows are left to train on: validation takes {self.held}")

    @property
    def items(self) -> int:
        """Rows in a batch."""
        return self.batch_size

    @property
    def _rows(self) -> int:
        """How many rows are for training."""
        return len(self.arrays[min(self.batched)]) - self.held

    def batch(self, step: int) -> Arrays:
        """Return B rows, drawn with replacement."""
        return self._take(drawn(self.seed, step, self.batch_size, self._rows))

    def validation(self) -> Iterator[Arrays]:
        """Return the held rows in order."""
        held = list(range(self._rows, self._rows + self.held))
        for rows in in_batches(held, self.batch_size):
            yield self._take(rows)

    def describe(self) -> dict[str, str | int]:
        """Return file, batch size, held rows and seed."""
        return {
            "sha256": self.sha256,
            "batch": self.batch_size,
            "held": self.held,
            "seed": self.seed,
        }

    def _take(self, rows: list[int]) -> Arrays:
        return {
            name: array[rows] if name in self.batched else array
            for name, array in self.arrays.items()
        }


def drawn(seed: int, step: int, count: int, places: int) -> list[int]:
    """Return `count` places of a step, with replacement; the remainder's bias is below n / 2⁶⁴."""
    key = fold(seed, "batch", step)
    return [fold(key, row) % places for row in range(count)]


def in_batches(rows: list[int], size: int) -> Iterator[list[int]]:
    """Return whole batches, so that the mean over batches is the mean over rows; or one small."""
    if 0 < len(rows) < size:
        yield rows
    for first in range(0, len(rows) - size + 1, size):
        yield rows[first : first + size]
