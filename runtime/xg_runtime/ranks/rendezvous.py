"""The processes that take part in this start of a job, met in a store that outlives them.

torchrun keeps its store when it restarts lost ranks, and its agents on several machines count the
starts each for itself. So an entry of the store may be of an earlier start. Every process therefore
writes a name of its own; rank 0 lists the names, and each process answers to the list that it is
on. No process answers to names of an earlier start.
"""

from __future__ import annotations

import hashlib
import json
import time
import uuid
from dataclasses import dataclass
from typing import Final

from xg_runtime.ranks.failure import CollectiveFailed
from xg_runtime.ranks.grid import Grid
from xg_runtime.ranks.handshake import PATIENCE, Store

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
