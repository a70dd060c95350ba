"""Errors of ranks that do not do the same: the same texts on every kind of mesh."""

from __future__ import annotations

from dataclasses import dataclass

from xg_runtime.errors import RankError
from xg_runtime.ranks.grid import Grid


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of a rank: its number, how many collectives it began, and the last of them."""

    rank: int
    begun: int
    call: str


def rank_error(grid: Grid, rank: int, what: str) -> RankError:
    """The error that a rank did something."""
    return RankError(rank, f"{grid.describe(rank)} {what}")


def differing(grid: Grid, one: Progress, other: Progress) -> RankError:
    """Two ranks have called different collectives; the first of them is blamed."""
    who = f"where {grid.describe(other.rank)} called {other.call}"
    what = f"called {one.call} {who}, each as its collective {one.begun}"
    return rank_error(grid, one.rank, what)


def ended_early(grid: Grid, ended: int, begun: int, waiting: Progress) -> RankError:
    """A rank has ended while another waits for it."""
    return rank_error(grid, ended, f"ended after {calls(begun)}, while {waits(grid, waiting)}")


def stalled(grid: Grid, rank: int, begun: int, timeout: float) -> RankError:
    """A rank has taken longer than `timeout` seconds."""
    what = f"neither ended nor went on within {timeout:g} s after {calls(begun)}"
    return rank_error(grid, rank, what)


def waits(grid: Grid, stand: Progress) -> str:
    """The collective that a rank waits in, in words."""
    return f"{grid.describe(stand.rank)} waits in its collective {stand.begun}, {stand.call}"


def calls(number: int) -> str:
    """The number of collectives, in words."""
    return "1 collective" if number == 1 else f"{number} collectives"
