"""Meet the processes of a job, and check that all are about to run the same program."""

from __future__ import annotations

import hashlib
import json
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final, Protocol

from xg_runtime.errors import InputError, RankError
from xg_runtime.ranks.call import CollectiveFailed
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


# The processes that take part in this start of a job, met in a store that outlives them.
#
# torchrun keeps its store when it restarts lost ranks, and its agents on several machines count the
# starts each for itself. So an entry of the store may be of an earlier start. Every process
# therefore writes a name of its own; rank 0 lists the names, and each process answers to the list
# that it is on. No process answers to names of an earlier start.


PAUSE: Final = 0.02  # seconds between two looks


@dataclass(frozen=True, slots=True)
class Start:
    """One start of a job: its name, which no other has, and whether there was one before it."""

    name: str
    again: bool


def rendezvous(store: Store, grid: Grid, rank: int) -> Start:
    """Meet all ranks of this start.

    Raises CollectiveFailed, which names the first rank that did not come.
    """
    own = uuid.uuid4().hex
    store.set(f"here/{rank}", own)
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        roll = _read_out(store, grid) if rank == 0 else _last(store)
        if roll[rank : rank + 1] == [own]:
            store.set(f"answer/{rank}", _name(roll))
            if rank == 0 and _silent_rank(store, grid) is None:
                _begin(store, _name(roll))
            if store.check([f"go/{_name(roll)}"]):
                return Start(_name(roll), json.loads(store.get(f"go/{_name(roll)}")))
        time.sleep(PAUSE)
    missing = grid.describe(_silent_rank(store, grid) or 0)
    raise CollectiveFailed(f"{missing} did not come within {PATIENCE:g} s")


def _read_out(store: Store, grid: Grid) -> list[str]:
    """Rank 0 lists the names that were written; an empty list while one is missing."""
    names = [_read_key(store, f"here/{one}") for one in range(grid.count)]
    roll = [name for name in names if name is not None]
    if len(roll) < grid.count:
        return []
    if roll != _last(store):
        store.set("roll", json.dumps(roll))
    return roll


def _last(store: Store) -> list[str]:
    """The list that was published last."""
    return json.loads(_read_key(store, "roll") or "[]")


def _read_key(store: Store, key: str) -> str | None:
    return store.get(key).decode() if store.check([key]) else None


def _name(roll: list[str]) -> str:
    return hashlib.sha256(" ".join(roll).encode()).hexdigest()[:16]


def _silent_rank(store: Store, grid: Grid) -> int | None:
    """The first rank that wrote nothing, or that has not answered to the last list."""
    ranks = range(grid.count)
    silent = [one for one in ranks if _read_key(store, f"here/{one}") is None]
    name = _name(_last(store))
    return next((one for one in silent or ranks if _read_key(store, f"answer/{one}") != name), None)


def _begin(store: Store, name: str) -> None:
    """Rank 0 lets the start begin."""
    store.set(f"go/{name}", json.dumps(store.check(["starts"])))
    store.set("starts", name)
