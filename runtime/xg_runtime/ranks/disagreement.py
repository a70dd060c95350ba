"""Errors of ranks that do not do the same: the same texts on every kind of mesh."""

from __future__ import annotations

import linecache
from dataclasses import dataclass
from inspect import currentframe
from typing import Final

from xg_runtime.errors import RankError
from xg_runtime.ranks.grid import Grid

SENT: Final = "what "  # begins the note of a rank that waits for a send, not in a collective


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of a rank: its number, how many collectives it began, and the last of them.

    `code` is the line that began it, where that is known.
    """

    rank: int
    begun: int
    call: str
    code: str = ""


def rank_error(grid: Grid, rank: int, what: str) -> RankError:
    """The error that a rank did something."""
    return RankError(rank, f"{grid.describe(rank)} {what}")


def differing(grid: Grid, one: Progress, other: Progress) -> RankError:
    """Two ranks have called different collectives; the first of them is blamed."""
    who = f"where {grid.describe(other.rank)} called {other.call}"
    what = f"called {one.call} {who}, each as its collective {one.begun}"
    places = [f"{grid.describe(at.rank)}: {at.code}" for at in (one, other) if at.code]
    return RankError(one.rank, f"{grid.describe(one.rank)} {what}", places)


def calling() -> str:
    """The line outside of this package that is running; generated code names edge and diagram."""
    frame = currentframe()
    while frame is not None and frame.f_globals.get("__name__", "").startswith("xg_runtime."):
        frame = frame.f_back
    return "" if frame is None else _line(frame.f_code.co_filename, frame.f_lineno)


def _line(file: str, number: int) -> str:
    return linecache.getline(file, number).strip()


def ended_early(grid: Grid, ended: int, begun: int, waiting: Progress) -> RankError:
    """A rank has ended while another waits for it."""
    return rank_error(grid, ended, f"ended after {calls(begun)}, while {waits(grid, waiting)}")


def stall_error(grid: Grid, rank: int, begun: int, timeout: float) -> RankError:
    """A rank has taken longer than `timeout` seconds."""
    what = f"neither ended nor went on within {timeout:g} s after {calls(begun)}"
    return rank_error(grid, rank, what)


def waits(grid: Grid, stand: Progress) -> str:
    """The collective that a rank waits in, or whose parts it waits for, in words."""
    if stand.call.startswith(SENT):
        return f"{grid.describe(stand.rank)} waits for {stand.call}"
    return f"{grid.describe(stand.rank)} waits in its collective {stand.begun}, {stand.call}"


def calls(number: int) -> str:
    """The number of collectives, in words."""
    return "1 collective" if number == 1 else f"{number} collectives"
