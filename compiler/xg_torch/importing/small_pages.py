"""Memory in pages of the usual size, for computations that need much of it once."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

import numpy as np


@contextmanager
def small_pages() -> Generator[None]:
    """Let NumPy not ask the system for huge pages.

    Where none is free, the system moves other memory together for each, which took a third of an
    import's time. NumPy reads the switch from the environment when it starts, too late for a caller
    that has it; a NumPy without this function keeps its pages.
    """
    core: Any = np
    switch: Callable[[bool], bool] | None = getattr(
        core._core.multiarray, "_set_madvise_hugepage", None
    )
    if switch is None:
        yield
        return
    before = switch(False)
    try:
        yield
    finally:
        switch(before)
