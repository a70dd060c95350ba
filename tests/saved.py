"""Arrays that a forward pass saves, in whatever containers it keeps them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray


def arrays_in(saved: object) -> Iterator[NDArray[Any]]:
    """Every array in saved values."""
    pending = [saved]
    while pending:
        part = pending.pop()
        if isinstance(part, np.ndarray):
            yield part
        elif isinstance(part, (tuple, list)):
            pending.extend(cast("list[object]", part))
