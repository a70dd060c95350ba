"""Arrays that a forward pass saves, in whatever containers it keeps them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray


def bytes_of(saved: object, params: Iterable[NDArray[Any]] = ()) -> int:
    """The bytes of saved values beside the parameters.

    A round of a loop adds nothing by what it reads of a saved array.
    """
    held = {id(array) for array in params}
    found = {id(array): array for array in arrays_in(saved)}
    arrays = [array for key, array in found.items() if key not in held]
    rounds: set[int] = set()
    for whole in arrays:
        read = {id(array) for array in arrays if _is_position(array, whole)}
        rounds |= read if len(read) > 1 else set()
    return sum(array.nbytes for array in arrays if id(array) not in rounds)


def _is_position(array: NDArray[Any], whole: NDArray[Any]) -> bool:
    """Whether it is `whole` at one position of an axis."""
    return array.ndim == whole.ndim - 1 and np.shares_memory(array, whole)


def arrays_in(saved: object) -> Iterator[NDArray[Any]]:
    """Every array in saved values."""
    pending = [saved]
    while pending:
        part = pending.pop()
        if isinstance(part, np.ndarray):
            yield part
        elif isinstance(part, (tuple, list)):
            pending.extend(cast("list[object]", part))
