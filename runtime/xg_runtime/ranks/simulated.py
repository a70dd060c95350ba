"""All ranks in one process, without torch: exact, and the same every time.

    results = simulate({"N_D": 2, "N_T": 3}, step)      step() on each of 6 ranks, in rank order

Every rank is a cooperative thread, so a collective is finished by the rank that comes last, always
in rank order. The ranks must begin the same collectives in the same order: the first that does not
is named, with the rank it differs from.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, NoReturn, TypeVar

from xg_runtime.errors import RankError
from xg_runtime.ranks.array_ops import Tensor, array_ops
from xg_runtime.ranks.call import (
    Call,
    Incoming,
    Outgoing,
    Progress,
    calling,
    differing,
    ended_early,
    rank_error,
    stall_error,
)
from xg_runtime.ranks.cooperative_threads import CooperativeThreads, Failed, Overdue, Stuck
from xg_runtime.ranks.grid import Grid
from xg_runtime.ranks.mesh import Exchange, Pending
from xg_runtime.ranks.rank_mesh import RankMesh

# One collective of one group of simulated ranks: operands and results of each.


@dataclass(slots=True)
class SimulatedCollective:
    """One collective of one group: the operand of each member, and then its result."""

    members: int
    given: dict[int, Tensor] = field(default_factory=dict[int, Tensor])
    results: list[Tensor] = field(default_factory=list[Tensor])
    is_done: bool = False

    def give(self, call: Call, place: int, x: Tensor) -> None:
        """Add a member's part; the last one's makes the results."""
        self.given[place] = x
        if len(self.given) == self.members:
            parts = [self.given.pop(place) for place in range(self.members)]
            self.results = call.kind.simulate(parts)
            self.is_done = True

    def take(self, place: int) -> Tensor:
        """Return a member's result, which is its own, and keep nothing of it."""
        result, self.results[place] = self.results[place], None
        return result


T = TypeVar("T")

# Seconds that a rank may take from one collective to the next. Patience costs nothing here: a rank
# that leaves the others is found without it, so this is for loops that do not end.
TIMEOUT: Final = 600.0


def simulate(sizes: Mapping[str, int], fn: Callable[[], T], *, timeout: float = TIMEOUT) -> list[T]:
    """Return what `fn` returns on every rank, in rank order: row-major, the first axis outermost.

    Raises RankError, its cause what happened there, when a rank raises; when ranks call different
    collectives, or one of them ends while others wait for it; when one takes longer than
    `timeout` seconds between two collectives. Raises InputError for a size below 1.
    """
    world = _World(Grid(dict(sizes)))
    meshes = [SimulatedMesh(world, place) for place in range(world.grid.count)]
    turns = CooperativeThreads([_body(mesh, fn) for mesh in meshes], timeout)
    world.turns = turns
    try:
        return turns.run()
    except Failed as failed:
        _raise_failure(world.grid, failed)
    except Overdue as late:
        raise stall_error(world.grid, late.place, meshes[late.place].begun, timeout) from None
    except Stuck:
        raise world.left(meshes) from None


def _body(mesh: SimulatedMesh, fn: Callable[[], T]) -> Callable[[], T]:
    def body() -> T:
        with mesh:
            result = fn()
        mesh.check_pending()
        return result

    return body


def _raise_failure(grid: Grid, failed: Failed) -> NoReturn:
    """Raise what a rank raised, as that rank's error."""
    cause = failed.__cause__
    if isinstance(cause, Exception) and not isinstance(cause, RankError):
        raise RankError.of(failed.place, grid.describe(failed.place), cause) from cause
    assert cause is not None
    raise cause.with_traceback(None) from None


class SimulatedMesh(RankMesh):
    """One simulated rank's mesh; `simulate` makes them."""

    def __init__(self, world: _World, place: int) -> None:
        """`place` is the rank's number in the world."""
        super().__init__(world.grid, place)
        self._world = world
        self.waiting: int | None = None  # the number of the collective
        self.missing: int | None = None  # the rank that is to send something
        self.untaken: int | None = None  # the rank that is to receive something

    @property
    def lacks(self) -> int | None:
        """The rank that this one waits for, because it must send or receive a message."""
        return self.untaken if self.missing is None else self.missing

    def start(self, call: Call, x: Tensor, *, donate: bool = False) -> Pending:
        """Begin a collective, with a copy of `x` unless it is donated.

        Raises RankError where ranks differ.
        """
        number = self.begin(call)
        self._world.agree((self.lane, number), self.place, call)
        group = self.grid.group(self.place, call.axis)
        collective = self._world.meeting(self.turn(call.axis), group)
        tensor = x if donate else array_ops(x).contiguous_copy(x)
        collective.give(call, group.index(self.place), tensor)
        return _Waiting(self, number, collective, group.index(self.place))

    def exchange(
        self, axis: str, sends: Sequence[Outgoing], receives: Sequence[Incoming]
    ) -> Exchange:
        """Post messages to and from other ranks, and wait until all of them have come.

        No other transport blocks a rank longer, so a program that runs here cannot deadlock there.
        Raises RankError if a message has another name than expected.
        """
        offers = [self._offer(each, axis) for each in sends]
        sources = [self.peer(axis, each.place) for each in receives]
        came: dict[int, Tensor] = {}
        while True:
            open_ways = dict[int, int]()  # a source, and the first that is expected from it
            for number, source in enumerate(sources):
                if number not in came and source not in open_ways:
                    if x := self._take(source, receives[number].name):
                        came[number] = x[0]
                    else:
                        open_ways[source] = number
            kept = [offer for offer in offers if not offer.taken]
            if not open_ways and not kept:
                break
            self.missing = next(iter(open_ways), None)
            self.untaken = kept[0].target if kept else None
            channels = [self._world.channel(source, self.place) for source in open_ways]
            self._world.turns.pause(self.place, partial(_goes_on, channels, kept))
        self.missing = self.untaken = None
        return _Came([came[number] for number in range(len(receives))])

    def _offer(self, each: Outgoing, axis: str) -> _Offer:
        """Offer a message to its target."""
        self.sending(each, axis)
        target = self.peer(axis, each.place)
        offer = _Offer(target, each.name, array_ops(each.x).contiguous_copy(each.x))
        self._world.channel(self.place, target).append(offer)
        return offer

    def _take(self, source: int, name: str) -> tuple[Tensor] | None:
        """Take the next message of a rank, if there is one; raises RankError for another name."""
        channel = self._world.channel(source, self.place)
        if not channel:
            return None
        offer = channel.popleft()
        if offer.name != name:
            what = f"sends {offer.name!r} where {name!r} is expected"
            raise rank_error(self.grid, source, what)
        offer.taken = True
        return (offer.x,)

    def flush(self) -> None:
        """Return at once: an exchange has ended when it returns."""

    def wait(self, number: int, meeting: SimulatedCollective) -> None:
        """Let other ranks run until all of the group have joined the collective."""
        self.end(number)
        self.waiting = number
        if not meeting.is_done:
            self._world.turns.pause(self.place, lambda: meeting.is_done)
        self.waiting = None


@dataclass(slots=True)
class _Offer:
    """A message that its target has taken, or is to take."""

    target: int
    name: str
    x: Tensor
    taken: bool = False


@dataclass(frozen=True, slots=True)
class _Came:
    """An exchange that has ended."""

    tensors: Sequence[Tensor]

    def wait(self, number: int) -> Tensor:
        return self.tensors[number]


def _goes_on(channels: Sequence[deque[_Offer]], kept: Sequence[_Offer]) -> bool:
    """Whether something has come, or, if nothing is to come, all offers are taken."""
    return any(channels) or (not channels and all(offer.taken for offer in kept))


@dataclass(frozen=True, slots=True)
class _Waiting:
    """One rank's part in a meeting."""

    mesh: SimulatedMesh
    number: int
    meeting: SimulatedCollective
    place: int

    def wait(self) -> Tensor:
        self.mesh.wait(self.number, self.meeting)
        return self.meeting.take(self.place)


class _World:
    """The shared state of the ranks of one simulation; one runs at a time, without locks."""

    turns: CooperativeThreads[Any]

    def __init__(self, grid: Grid) -> None:
        self.grid = grid
        self._agreed: dict[tuple[int, int], tuple[int, Call]] = {}
        self._meetings: dict[tuple[tuple[str, int], tuple[int, ...]], SimulatedCollective] = {}
        self._channels: dict[tuple[int, int], deque[_Offer]] = {}

    def channel(self, source: int, target: int) -> deque[_Offer]:
        """The messages under way from one rank to another."""
        return self._channels.setdefault((source, target), deque())

    def agree(self, turn: tuple[int, int], place: int, call: Call) -> None:
        """Raise RankError unless all ranks of a lane make `call` as their collective of a number.

        A turn is both.
        """
        first, expected = self._agreed.setdefault(turn, (place, call))
        _, number = turn
        if call != expected:
            one = Progress(place, number + 1, str(call), calling())
            raise differing(self.grid, one, Progress(first, number + 1, str(expected)))

    def meeting(self, turn: tuple[str, int], group: tuple[int, ...]) -> SimulatedCollective:
        """The place where a group meets for its collective of a turn over an axis."""
        key = (turn, group)
        meeting = self._meetings.setdefault(key, SimulatedCollective(len(group)))
        if len(meeting.given) == meeting.members - 1:
            del self._meetings[key]  # this rank is the last
        return meeting

    def left(self, meshes: list[SimulatedMesh]) -> RankError:
        """The error that a rank ended while another waits for it, or that all wait in a circle."""
        waits = [(mesh.waiting, mesh.place) for mesh in meshes if mesh.waiting is not None]
        stuck = [mesh for mesh in meshes if mesh.lacks is not None]
        ended = {mesh.place for mesh in meshes if mesh.waiting is None} - {m.place for m in stuck}
        lost = next((mesh for mesh in stuck if mesh.lacks in ended), None)
        if lost is not None:
            return RankError(lost.place, self._lack(lost))
        if stuck and not waits:
            details = [self._lack(mesh) for mesh in stuck[1:]]
            return RankError(stuck[0].place, self._lack(stuck[0]), details)
        number, place = min(waits)  # the missing rank does not wait for anything earlier
        call = self._agreed[meshes[place].lane, number][1]
        group = self.grid.group(place, call.axis)
        others = [member for member in group if member != place]
        ended = next((m for m in others if meshes[m].begun <= number), others[0])
        waiting = Progress(place, number + 1, str(call))
        return ended_early(self.grid, ended, meshes[ended].begun, waiting)

    def _lack(self, mesh: SimulatedMesh) -> str:
        """Say what a rank waits for that another one does not send or receive."""
        name = self.grid.describe
        if mesh.missing is not None:
            return f"{name(mesh.place)} waits for what {name(mesh.missing)} never sends"
        assert mesh.untaken is not None
        return f"{name(mesh.place)} sends what {name(mesh.untaken)} never receives"
