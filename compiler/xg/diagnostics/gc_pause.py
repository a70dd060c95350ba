"""The garbage collector at rest: trees and graphs that grow hold no garbage worth a search.

Searched as often as Python does it, a graph of 10,000 operators takes twice the time to make, and
the share grows with the graph.
"""

from __future__ import annotations

import gc
from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def resting_collector() -> Generator[None]:
    """Collect nothing meanwhile; as a context or as a decorator, inside another one too."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()
