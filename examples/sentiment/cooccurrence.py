"""How often words occur beside each other (seed 003, the co-occurrence matrix).

cooccurrence([[0, 1, 2, 3, 0, 4]], 5)     "the cat sat on the mat", the seed's example
"""

from collections.abc import Iterable, Sequence

import numpy as np

from xg_runtime.module import Array

_NOBODY = -1  # between two texts: its neighbors are no neighbors of each other


def cooccurrence(texts: Iterable[Sequence[int]], size: int) -> Array:
    """Return [V, V] float64: at i, j how often words i and j are neighbors; symmetric.

    A text is its words' ids below `size`; any other number is a word that does not count, and
    keeps its neighbors apart.
    """
    row = np.array([word for text in texts for word in (*text, _NOBODY)], np.int64)
    left, right = row[:-1], row[1:]
    counted = (left >= 0) & (left < size) & (right >= 0) & (right < size)
    pairs = left[counted] * size + right[counted]
    one_way = np.bincount(pairs, minlength=size * size).reshape(size, size).astype(np.float64)
    return one_way + one_way.T
