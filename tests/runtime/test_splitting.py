"""Batches in parts: equal rows, and weights that give the loss of the whole."""

from typing import Any

import numpy as np
import pytest

from xg_runtime.errors import InputError
from xg_runtime.step import WHOLE, Split

BATCH: dict[str, Any] = {
    "X": np.arange(8.0).reshape(4, 2),
    "t": np.array([[1, -1], [-1, -1], [0, 2], [1, -1]]),
    "table": np.ones(3),
}
ROWS = frozenset({"X", "t"})


def test_the_weights_of_means_and_sums() -> None:
    assert [weight for _, weight in WHOLE.parts(BATCH)] == [1]
    assert [weight for _, weight in Split(2, ROWS).parts(BATCH)] == [0.5, 0.5]
    assert [weight for _, weight in Split(2, ROWS, is_mean=False).parts(BATCH)] == [1, 1]


def test_what_does_not_count_has_no_weight() -> None:
    found = list(Split(4, ROWS, targets="t", ignored=-1).parts(BATCH))
    assert [weight for _, weight in found] == [0.25, 0.5, 0.25]  # of the second row nothing counts
    assert [part["X"].tolist() for part, _ in found] == [[[0, 1]], [[4, 5]], [[6, 7]]]
    assert all(part["table"] is BATCH["table"] for part, _ in found)
    nothing = BATCH | {"t": np.full((4, 2), -1)}
    assert len(list(Split(2, ROWS, targets="t", ignored=-1).parts(nothing))) == 2


def test_parts_are_equal_or_none() -> None:
    with pytest.raises(InputError, match="a batch of 4 rows cannot be split into 3 equal parts"):
        list(Split(3, ROWS).parts(BATCH))
