"""One rank at its place: what is the same for every kind of mesh."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from xg_runtime.errors import InputError
from xg_runtime.ranks.call import Call, Form, Outgoing, rank_error
from xg_runtime.ranks.comm_counters import CommCounters
from xg_runtime.ranks.grid import Grid
from xg_runtime.ranks.kinds import SEND
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
        self._calls_over: Counter[str] = Counter()
        self._stages: str | None = None
        self._opened: dict[tuple[int, str], Form] = {}  # by the other rank and the name

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

    def diverge(self, axis: str) -> None:
        """Note that from now on ranks along an axis run programs of their own: a pipeline."""
        self._stages = axis

    @property
    def lane(self) -> int:
        """Which of the programs this rank runs: its place along the axis of the pipeline."""
        return 0 if self._stages is None else self.rank(self._stages)

    def peer(self, axis: str, place: int) -> int:
        """The number of the rank at a place along an axis, else where this one is."""
        at = {**self.grid.coordinates(self.place), axis: place}
        return self.grid.number([at[name] for name in self.grid.sizes])

    def sending(self, each: Outgoing, axis: str) -> Call:
        """The call that sends a tensor along an axis; counted.

        Raises InputError if the form differs from that of the first message under this name.
        """
        form, way = Form.of(each.x), (self.peer(axis, each.place), each.name)
        opened = form if each.opens else self._opened.get(way, form)
        if form != opened:
            raise InputError(
                f"all microbatches of a step need one shape; found {form} after {opened}"
            )
        self._opened[way] = form
        call = Call(SEND, axis, form.shape, form.dtype, int(each.x.dtype.itemsize))
        self.counters.add(call, self.size(axis))
        return call

    def turn(self, axis: str) -> tuple[str, int]:
        """How many collectives over an axis this rank has begun: the same for its group."""
        self._calls_over[axis] += 1
        return axis, self._calls_over[axis]

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

    def check_pending(self) -> None:
        """Raise RankError for a collective that was begun and never awaited."""
        for number, call in self._under_way.items():
            what = f"began its collective {number + 1}, {call}, and never awaited it"
            raise rank_error(self.grid, self.place, what)
