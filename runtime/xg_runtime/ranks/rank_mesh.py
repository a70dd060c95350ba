"""One rank at its place: what is the same for every kind of mesh."""

from __future__ import annotations

from collections.abc import Mapping

from xg_runtime.ranks.call import Call
from xg_runtime.ranks.comm_counters import CommCounters
from xg_runtime.ranks.disagreement import rank_error
from xg_runtime.ranks.grid import Grid
from xg_runtime.ranks.mesh import Entered


class RankMesh(Entered):
    """A rank's place on the grid, what it has counted, and which collectives it has begun."""

    def __init__(self, grid: Grid, place: int) -> None:
        """`place` is the rank's number, row-major."""
        self.grid = grid
        self.place = place
        self.counters = CommCounters()
        self.begun = 0
        self._under_way: dict[int, Call] = {}

    @property
    def sizes(self) -> Mapping[str, int]:
        """The axes in order, with the number of ranks along each."""
        return self.grid.sizes

    def rank(self, axis: str) -> int:
        """This rank's place along an axis; raises InputError where there is no such axis."""
        return self.grid.place(self.place, axis)

    def size(self, axis: str) -> int:
        """The number of ranks along an axis; raises InputError where there is no such axis."""
        return self.grid.size(axis)

    def begin(self, call: Call) -> int:
        """Note that a collective begins; return its number, from 0."""
        number, self.begun = self.begun, self.begun + 1
        self._under_way[number] = call
        return number

    def end(self, number: int) -> Call:
        """Note that a collective is awaited; raises RankError the second time."""
        if number not in self._under_way:
            raise rank_error(self.grid, self.place, f"awaited its collective {number + 1} twice")
        return self._under_way.pop(number)

    def check_awaited(self) -> None:
        """Raise RankError for a collective that was begun and never awaited."""
        for number, call in self._under_way.items():
            what = f"began its collective {number + 1}, {call}, and never awaited it"
            raise rank_error(self.grid, self.place, what)
