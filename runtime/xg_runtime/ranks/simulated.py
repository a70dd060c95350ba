"""All ranks in one process, without torch: exact, and the same every time.

    results = simulate({"N_D": 2, "N_T": 3}, step)      step() on each of 6 ranks, in rank order

Every rank is a thread; they take turns (`turns`), so a collective is finished by the rank that
comes last, in rank order whoever that is. The ranks must begin the same collectives in the same
order: the first that does not is named, with the rank it differs from.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, NoReturn, TypeVar

from xg_runtime.errors import RankError
from xg_runtime.ranks.call import Call
from xg_runtime.ranks.grid import Grid
from xg_runtime.ranks.meeting import Meeting
from xg_runtime.ranks.mesh import Entered
from xg_runtime.ranks.tally import Tally
from xg_runtime.ranks.turns import Failed, Overdue, Stuck, Turns
from xg_runtime.ranks.words import Tensor, words

T = TypeVar("T")

TIMEOUT: Final = 60.0  # seconds that a rank may take from one collective to the next


def simulate(sizes: Mapping[str, int], fn: Callable[[], T], *, timeout: float = TIMEOUT) -> list[T]:
    """Return what `fn` returns on every rank, in rank order: row-major, the first axis outermost.

    Raises RankError, its cause what happened there, when a rank raises; when ranks call different
    collectives, or one of them ends while others wait for it; when one takes longer than
    `timeout` seconds between two collectives. Raises InputError for a size below 1.
    """
    world = _World(Grid(dict(sizes)))
    meshes = [SimulatedMesh(world, place) for place in range(world.grid.count)]
    turns = Turns([_body(mesh, fn) for mesh in meshes], timeout)
    world.turns = turns
    try:
        return turns.run()
    except Failed as failed:
        world.raise_failed(failed)
    except Overdue as overdue:
        at = f"within {timeout:g} s after {_calls(meshes[overdue.place].begun)}"
        raise world.error(overdue.place, f"neither ended nor went on {at}") from None
    except Stuck:
        world.raise_stuck(meshes)


def _body(mesh: SimulatedMesh, fn: Callable[[], T]) -> Callable[[], T]:
    def body() -> T:
        with mesh:
            result = fn()
        mesh.check_awaited()
        return result

    return body


class SimulatedMesh(Entered):
    """One simulated rank's mesh; `simulate` makes them."""

    def __init__(self, world: _World, place: int) -> None:
        """`place` is the rank's number in the world."""
        self._world = world
        self._place = place
        self._at = world.grid.coordinates(place)
        self._under_way: dict[int, Call] = {}
        self.tally = Tally()
        self.begun = 0
        self.waiting: int | None = None  # the number of the collective

    @property
    def sizes(self) -> Mapping[str, int]:
        """The axes in order, with the number of ranks along each."""
        return self._world.grid.sizes

    def rank(self, axis: str) -> int:
        """This rank's place along an axis; raises InputError where there is no such axis."""
        self._world.grid.size(axis)
        return self._at[axis]

    def size(self, axis: str) -> int:
        """The number of ranks along an axis; raises InputError where there is no such axis."""
        return self._world.grid.size(axis)

    def start(self, call: Call, x: Tensor) -> _Waiting:
        """Begin a collective, with a copy of `x`; raises RankError where ranks differ."""
        number, self.begun = self.begun, self.begun + 1
        self._world.agree(number, self._place, call)
        group = self._world.grid.group(self._place, call.axis)
        meeting = self._world.meeting(number, group)
        meeting.give(call, group.index(self._place), words(x).owned(x))
        self._under_way[number] = call
        return _Waiting(self, number, meeting, group.index(self._place))

    def wait(self, number: int, meeting: Meeting) -> None:
        """Let other ranks run until all of the group have come to the meeting."""
        if number not in self._under_way:
            raise self._world.error(self._place, f"awaited its collective {number + 1} twice")
        self.waiting = number
        if not meeting.is_done:
            self._world.turns.pause(self._place, lambda: meeting.is_done)
        self.waiting = None
        del self._under_way[number]

    def check_awaited(self) -> None:
        """Raise RankError for a collective that was begun and never awaited."""
        for number, call in self._under_way.items():
            what = f"began its collective {number + 1}, {call}, and never awaited it"
            raise self._world.error(self._place, what)


@dataclass(frozen=True, slots=True)
class _Waiting:
    """One rank's part in a meeting."""

    mesh: SimulatedMesh
    number: int
    meeting: Meeting
    place: int

    def wait(self) -> Tensor:
        self.mesh.wait(self.number, self.meeting)
        return self.meeting.take(self.place)


class _World:
    """What the ranks of one simulation share; they take turns, so nothing is locked."""

    turns: Turns[Any]

    def __init__(self, grid: Grid) -> None:
        self.grid = grid
        self._agreed: list[tuple[int, Call]] = []
        self._meetings: dict[tuple[int, tuple[int, ...]], Meeting] = {}

    def agree(self, number: int, place: int, call: Call) -> None:
        """Raise RankError unless all ranks make `call` as their collective of this number."""
        if number == len(self._agreed):
            self._agreed.append((place, call))
        first, expected = self._agreed[number]
        if call != expected:
            what = f"called {call} where {self.grid.describe(first)} called {expected}"
            raise self.error(place, f"{what}, each as its collective {number + 1}")

    def meeting(self, number: int, group: tuple[int, ...]) -> Meeting:
        """The place where a group meets for its collective of this number."""
        key = (number, group)
        meeting = self._meetings.setdefault(key, Meeting(len(group)))
        if len(meeting.given) == meeting.members - 1:
            del self._meetings[key]  # whoever asks now is the last
        return meeting

    def error(self, place: int, what: str) -> RankError:
        """The error that a rank did something."""
        return RankError(place, f"{self.grid.describe(place)} {what}")

    def raise_failed(self, failed: Failed) -> NoReturn:
        """Raise what a rank raised, as that rank's error."""
        cause = failed.__cause__
        if isinstance(cause, RankError):
            raise cause.with_traceback(None)
        assert cause is not None
        if not isinstance(cause, Exception):
            raise cause
        raise RankError.of(failed.place, self.grid.describe(failed.place), cause) from cause

    def raise_stuck(self, meshes: list[SimulatedMesh]) -> NoReturn:
        """Raise the error of a rank that ended while another waits for it."""
        waits = [
            (mesh.waiting, place) for place, mesh in enumerate(meshes) if mesh.waiting is not None
        ]
        number, place = min(waits)  # whoever is missing there does not wait for anything earlier
        call = self._agreed[number][1]
        group = self.grid.group(place, call.axis)
        ended = next(member for member in group if meshes[member].begun <= number)
        who = f"{self.grid.describe(place)} waits in its collective {number + 1}, {call}"
        raise self.error(ended, f"ended after {_calls(meshes[ended].begun)}, while {who}")


def _calls(number: int) -> str:
    return "1 collective" if number == 1 else f"{number} collectives"
