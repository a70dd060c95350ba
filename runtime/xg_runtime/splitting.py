"""A batch computed in several parts, one after the other: less memory for the same step.

    split = Split(4, frozenset({"ids", "t"}))
    for part, weight in split.parts(batch): ...     a quarter of the rows each, and its share

The loss of the batch is the sum of those of its parts, each times its weight; so are the gradients.
Of a mean the weights are shares of the counted rows, of a sum they are 1.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from xg_runtime.errors import InputError
from xg_runtime.module import Array, Arrays


@dataclass(frozen=True)
class Split:
    """In how many parts; `rows` are the inputs that have rows along axis 0.

    `is_mean` says what the loss is of its terms; of `targets` the id `ignored` does not count.
    """

    count: int = 1
    rows: frozenset[str] = frozenset()
    is_mean: bool = True
    targets: str = ""
    ignored: int | None = None

    def parts(self, batch: Arrays) -> Iterator[tuple[Arrays, float]]:
        """The parts and their weights; raises InputError where they would not be equal."""
        if self.count == 1:
            yield batch, 1.0
            return
        cut = {name: self._cut(name, batch) for name in batch if name in self.rows}
        parts = [{**batch, **{n: c[i] for n, c in cut.items()}} for i in range(self.count)]
        weights = [self._weight(part) if self.is_mean else 1.0 for part in parts]
        total = sum(weights) if self.is_mean else 1.0
        for part, weight in zip(parts, weights, strict=True):
            if weight or not total:  # a part in which nothing counts has no loss
                yield part, weight / (total or 1.0)

    def _cut(self, name: str, batch: Arrays) -> list[Array]:
        """The rows of one array, in equal parts."""
        array = batch[name]
        if len(array) % self.count:
            raise InputError(
                f"a batch of {len(array)} rows cannot be split into {self.count} equal parts"
            )
        return list(np.split(array, self.count))

    def _weight(self, part: Arrays) -> float:
        """How much of a part counts."""
        if self.ignored is None:
            return 1.0
        return float(np.count_nonzero(part[self.targets] != self.ignored))


WHOLE: Final = Split()
