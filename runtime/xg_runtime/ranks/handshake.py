"""Before the first step: are all ranks about to run the same program in the same way?"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Final, Protocol

from xg_runtime.errors import InputError, RankError
from xg_runtime.ranks.failure import CollectiveFailed
from xg_runtime.ranks.grid import Grid

PATIENCE: Final = (
    120.0  # seconds that a rank gets to start; torch alone can take many from a cold disk
)


class Store(Protocol):
    """The used methods of a torch.distributed store."""

    def set(self, key: str, value: str) -> None:
        """Keep a value."""
        ...

    def get(self, key: str) -> bytes:
        """Return a value, waiting for it."""
        ...

    def check(self, keys: list[str]) -> bool:
        """Return whether all are there."""
        ...

    def wait(self, keys: list[str], timeout: timedelta) -> None:
        """Wait until all are there."""
        ...


def shake_hands(store: Store, grid: Grid, rank: int, facts: Mapping[str, str]) -> None:
    """Check that `facts` (plan, version, dtype, ...) are the same on every rank.

    Raises RankError for the first rank that has others than rank 0, CollectiveFailed where a rank
    does not come.
    """
    keys = [f"hello/{other}" for other in range(grid.count)]
    store.set(keys[rank], json.dumps(dict(facts), sort_keys=True))
    _await_keys(store, grid, keys)
    said: list[dict[str, Any]] = [json.loads(store.get(key)) for key in keys]
    for other, theirs in enumerate(said):
        for name in sorted(theirs.keys() | said[0].keys()):
            if theirs.get(name) != said[0].get(name):
                raise RankError(other, _difference(grid, other, name, theirs, said[0]))


def check_world(grid: Grid, world: int) -> None:
    """Raise InputError unless the mesh has as many ranks as were started."""
    if grid.count != world:
        sizes = ", ".join(f"{axis} = {size}" for axis, size in grid.sizes.items()) or "no axis"
        started = "1 process was" if world == 1 else f"{world} processes were"
        raise InputError(f"the mesh ({sizes}) has {grid.count} ranks, and {started} started")


def _await_keys(store: Store, grid: Grid, keys: list[str]) -> None:
    try:
        store.wait(keys, timedelta(seconds=PATIENCE))
    except RuntimeError as error:
        missing = [grid.describe(rank) for rank, key in enumerate(keys) if not store.check([key])]
        who = ", ".join(missing) or "a rank"
        raise CollectiveFailed(f"{who} did not come within {PATIENCE:g} s") from error


def _difference(
    grid: Grid, other: int, name: str, theirs: Mapping[str, object], first: Mapping[str, object]
) -> str:
    one = _has(grid.describe(other), name, theirs)
    return f"{one}, {_has(grid.describe(0), name, first)}: all ranks run the same program"


def _has(who: str, name: str, facts: Mapping[str, object]) -> str:
    return f"{who} has {name} {facts[name]}" if name in facts else f"{who} has no {name}"
