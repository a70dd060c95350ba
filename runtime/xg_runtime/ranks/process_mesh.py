"""One rank that is a process, joined to the others by torch.distributed."""

from __future__ import annotations

import contextlib
from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from math import prod
from types import TracebackType
from typing import Any, Final

import numpy as np
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh

from xg_runtime.ranks.array_ops import Tensor
from xg_runtime.ranks.backend import (
    CARRIERS,
    TorchGroup,
    all_gather,
    cast_result,
    flat,
    make_group,
    meet,
    wait_for_work,
)
from xg_runtime.ranks.call import (
    SENT,
    SENT_TYPES,
    Call,
    Form,
    Incoming,
    Outgoing,
    Progress,
    calling,
    differing,
    ended_early,
    failure_of,
)
from xg_runtime.ranks.folder import Heartbeat, NoHeartbeat
from xg_runtime.ranks.grid import Grid, no_communicator
from xg_runtime.ranks.mesh import Exchange, set_process_mesh
from xg_runtime.ranks.rank_mesh import RankMesh
from xg_runtime.ranks.traced import TracedMesh

# Whether all processes are about to begin the same collective.
#
# torch's backends do not ask: ranks that call different things get wrong numbers, an abort in C++,
# or wait until a timeout. One small all-gather of each rank's call finds the difference in time,
# and reports it as the simulated mesh does. TORCH_DISTRIBUTED_DEBUG=DETAIL finds the same, but not
# across the axes of a mesh, and names neither the axis nor the collective's number.


_dist: Any = dist  # much of it has no annotations
_ROOM: Final = 256  # bytes in which a rank says what it calls


@dataclass(frozen=True, slots=True)
class Agreement:
    """Compare the calls of ranks that run one program, in a CPU group used for this only."""

    group: object
    members: Sequence[int]

    @classmethod
    def of_grid(cls, grid: Grid, timeout: float) -> Agreement:
        """Create the group of all ranks."""
        members = range(grid.count)
        return cls(make_group(members, "all ranks", "cpu", timeout, "gloo"), members)

    @classmethod
    def of_stage(cls, grid: Grid, rank: int, axis: str, timeout: float) -> Agreement | None:
        """Create the group of a rank's stage on `axis`; None if the mesh has no other axis.

        All ranks have to come here at the same time, each for its own stage.
        """
        beside = "*".join(name for name in grid.sizes if name != axis)
        if not beside:
            return None
        members = grid.group(rank, beside)
        return cls(make_group(members, f"calls over {beside}", "cpu", timeout, "gloo"), members)

    def check(self, grid: Grid, number: int, call: str, timeout: float) -> None:
        """Raise RankError unless all members come here with the same call; "" is the end."""
        mine = f"{call}\n{calling()}" if call else ""
        said = zip(self.members, self._all(mine, timeout), strict=True)
        ranks = [Progress(r, number + 1, *text.split("\n")[:2]) for r, text in said]
        ended = [stand.rank for stand in ranks if not stand.call]
        waiting = [stand for stand in ranks if stand.call]
        if ended and waiting:
            raise ended_early(grid, ended[0], number, waiting[0])
        for stand in ranks:
            if stand.call != ranks[0].call:
                raise differing(grid, stand, ranks[0])

    def _all(self, call: str, timeout: float) -> list[str]:
        """The calls of every member, and the lines of code that make them."""
        mine = torch.frombuffer(bytearray(call.encode()[:_ROOM].ljust(_ROOM)), dtype=torch.uint8)
        everyone = torch.empty(_dist.get_world_size(self.group) * _ROOM, dtype=torch.uint8)
        work = all_gather(everyone, mine, group=self.group, async_op=True)
        work.wait(timedelta(seconds=timeout))
        said = everyone.numpy().tobytes()
        return [
            said[start : start + _ROOM].decode("utf-8", "replace").rstrip()
            for start in range(0, len(said), _ROOM)
        ]


# Messages between processes: batches of sends and receives, and the head that tells a form.
#
# A receiver has to give a buffer of the right length before a message comes. Only the first message
# of a step on each way has a head before it, of a fixed length: to read it, the receiver waits for
# the device. All later ones have the form of the first, so that nothing waits to learn it.


_HEAD: Final = 16  # numbers: whether an array, its type, how many axes it has, and its shape


@dataclass(frozen=True, slots=True)
class Post:
    """One message of a batch: its bytes, or the room for them, and torch's number of a rank."""

    peer: int
    content: torch.Tensor
    is_send: bool


def post(batch: Sequence[Post], group: object) -> list[Any]:
    """Post messages at once; return a handle for each.

    NCCL runs the sends and receives of one call in one kernel, where they don't wait for each
    other; separate calls run one after the other. It gives one handle for all of them.
    """
    if not batch:
        return []
    calls = [
        _dist.P2POp(
            _dist.isend if each.is_send else _dist.irecv,
            each.content,
            each.peer,
            group,
        )
        for each in batch
    ]
    works: list[Any] = _dist.batch_isend_irecv(calls)
    return works if len(works) == len(batch) else [works[0]] * len(batch)


def head(form: Form, device: str) -> torch.Tensor:
    """Write a form in a message of fixed length."""
    kind = [int(form.is_array), SENT_TYPES.index(form.dtype), len(form.shape), *form.shape]
    return torch.tensor([*kind, *[0] * (_HEAD - len(kind))], device=device)


def empty_head(device: str) -> torch.Tensor:
    """Return the room for a head."""
    return torch.empty(_HEAD, dtype=torch.int64, device=device)


def read_head(message: torch.Tensor) -> Form:
    """Read the form in a head; this waits until the device is done."""
    is_array, dtype, axes, *rest = map(int, message.cpu().numpy())
    return Form(tuple(rest[:axes]), SENT_TYPES[dtype], bool(is_array))


def packed(x: Tensor, device: str) -> torch.Tensor:
    """Return a copy of a tensor as bytes."""
    return flat(x, device, copy=True).view(torch.uint8)


def room(form: Form, device: str) -> torch.Tensor:
    """Return the room for the bytes of a tensor."""
    length = prod(form.shape) * _carrier(form).itemsize
    return torch.empty(length, dtype=torch.uint8, device=device)


def unpacked(content: torch.Tensor, form: Form) -> Tensor:
    """Return the tensor that came, which is an array if it was one there."""
    dtype = np.dtype(form.dtype) if form.is_array else getattr(torch, form.dtype)
    return cast_result(content.view(_carrier(form)).view(form.shape), dtype)


def _carrier(form: Form) -> torch.dtype:
    dtype: torch.dtype = getattr(torch, form.dtype)
    return CARRIERS.get(dtype, dtype)


@dataclass(frozen=True)
class Watched:
    """The supervision of a rank: how it waits for others and reports its state.

    `timeout` bounds how long it waits for them, in seconds; `record` is its heartbeat; `agreement`
    compares every collective with theirs before it begins.
    """

    timeout: float = 60.0
    record: Heartbeat | NoHeartbeat = field(default_factory=NoHeartbeat)
    agreement: Agreement | None = None


class ProcessMesh(RankMesh):
    """This process's mesh: the named axes of a DeviceMesh."""

    def __init__(
        self,
        devices: DeviceMesh,
        watched: Watched | None = None,
        *,
        again: bool = False,
        joint: Sequence[str] | None = None,
    ) -> None:
        """`devices` has names for its axes, and this process is in it.

        `again`: the ranks were started before, and one of them was lost. `joint` are the products
        of axes over which ranks call collectives, by default every product.
        """
        grid = Grid(dict(zip(devices.mesh_dim_names or (), devices.mesh.shape, strict=True)))
        super().__init__(grid, grid.number(devices.get_coordinate() or ()))
        self.devices = devices
        self.again = again
        # The form of what comes, by torch's number of the sender and the name of the way:
        self._forms: dict[tuple[int, str], Form] = {}
        self._leaving: list[tuple[Any, Tensor]] = []  # what must live until it has left
        self._watched = watched or Watched()
        self._record = self._watched.record
        self._agreement = self._watched.agreement
        self._groups = self._all_groups(grid.joint_axes() if joint is None else joint)
        names = {members: str(group.group_name) for members, group in self._groups.items()}
        self._traced = TracedMesh(grid, self.place, names)

    def __enter__(self) -> ProcessMesh:
        # Autograd runs code in threads of its own, without our context.
        set_process_mesh(self, self._traced, torch.compiler.is_compiling)
        return super().__enter__()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        super().__exit__(kind, error, trace)
        set_process_mesh(None)

    def start(self, call: Call, x: Tensor, *, donate: bool = False) -> _UnderWay:
        """Begin a collective; `x` may change afterwards, and is copied unless it is donated.

        Raises RankError where ranks are found to differ, CollectiveFailed where one is gone.
        """
        group = TorchGroup(self._group(call.axis))
        number = self.begin(call)
        self._agree(number, str(call))
        with self._failures(call, number):
            copy = not donate and not call.kind.grows  # it is copied to its place in the result
            buffer = flat(x, self.devices.device_type, copy=copy)
            work, result = call.kind.begin(group, buffer)
        self._record.note("runs", self.begun, str(call))
        tensor = result.view(call.kind.shape(tuple(x.shape), self.size(call.axis)))
        return _UnderWay(self, number, work, tensor, x.dtype)

    def _all_groups(self, joint: Sequence[str]) -> dict[tuple[int, ...], Any]:
        """Make the process groups of this rank, by their members: of each axis, and of several.

        Every rank makes them before its program starts, in one order: stages of a pipeline run
        programs of their own, which use groups in another order.
        """
        device, timeout = self.devices.device_type, self._watched.timeout
        names = [int(name) for name in self.devices.mesh.flatten()]
        assert names == sorted(names), "torch orders the ranks of a group by their numbers"
        groups: dict[tuple[int, ...], Any] = {}
        for axis in self.grid.sizes:
            groups.setdefault(self.grid.group(self.place, axis), self.devices.get_group(axis))
        for axes in joint:
            members = self.grid.group(self.place, axes)
            if members not in groups:
                ranks = [names[place] for place in members]
                groups[members] = make_group(ranks, axes, device, timeout)
        return groups

    def _group(self, axis: str) -> Any:  # noqa: ANN401 - torch names no type
        """The group of this rank over an axis; raises InputError for one that was not made."""
        members = self.grid.group(self.place, axis)
        if members not in self._groups:
            raise no_communicator(axis)
        return self._groups[members]

    def diverge(self, axis: str) -> None:
        """Note that from now on ranks along an axis run programs of their own: a pipeline.

        Collectives are compared among those of one stage; all ranks have to come here.
        """
        if self._stages is None and self._agreement is not None:
            timeout = self._watched.timeout
            self._agreement = Agreement.of_stage(self.grid, self.place, axis, timeout)
        super().diverge(axis)

    def exchange(
        self, axis: str, sends: Sequence[Outgoing], receives: Sequence[Incoming]
    ) -> Exchange:
        """Post messages to and from other ranks along an axis; what is sent may change."""
        calls = [self.sending(each, axis) for each in sends]
        targets = [self._name(axis, each.place) for each in sends]
        sources = [self._name(axis, each.place) for each in receives]
        what = " and ".join(map(str, calls)) or self._sent_by(axis, receives[0].place)
        device, group = self.devices.device_type, self._group(axis)
        self._record.note("runs", self.begun, what)
        with self._failures(what, self.begun):
            self._open(
                axis,
                list(zip(sends, targets, strict=True)),
                list(zip(receives, sources, strict=True)),
            )
            forms = [
                self._forms[source, each.name] if each.like is None else Form.of(each.like)
                for each, source in zip(receives, sources, strict=True)
            ]
            contents = [packed(each.x, device) for each in sends]
            rooms = [room(form, device) for form in forms]
            outs = [Post(*each, True) for each in zip(targets, contents, strict=True)]
            ins = [Post(*each, False) for each in zip(sources, rooms, strict=True)]
            filled = [each for each in (*outs, *ins) if each.content.numel()]
            works = iter(post(filled, group))
            handles = [next(works) if each.content.numel() else None for each in (*outs, *ins)]
        self._leaving += [(w, c) for w, c in zip(handles, contents, strict=False) if w is not None]
        places = [each.place for each in receives]
        return _Messages(self, axis, places, handles[len(outs) :], rooms, forms)

    def _open(
        self,
        axis: str,
        sends: Sequence[tuple[Outgoing, int]],
        receives: Sequence[tuple[Incoming, int]],
    ) -> None:
        """Exchange the forms of messages under new names; wait for the forms that come."""
        device, group = self.devices.device_type, self._group(axis)
        ours = [Post(to, head(Form.of(s.x), device), True) for s, to in sends if s.opens]
        opened = [(each, source) for each, source in receives if each.opens]
        theirs = [Post(source, empty_head(device), False) for _, source in opened]
        works = post([*ours, *theirs], group)
        self._leaving += [(w, p.content) for w, p in zip(works, ours, strict=False)]
        for (each, source), work, found in zip(opened, works[len(ours) :], theirs, strict=True):
            self.await_message(axis, each.place, work)
            self._forms[source, each.name] = read_head(found.content)

    def _sent_by(self, axis: str, place: int) -> str:
        return f"{SENT}{self.grid.describe(self.peer(axis, place))} sends"

    def await_message(self, axis: str, place: int, work: Any) -> None:  # noqa: ANN401
        """Wait for torch's handle of a message from the rank at a place along an axis."""
        what = self._sent_by(axis, place)
        self._record.note("waits", self.begun + 1, what)
        with self._failures(what, self.begun):
            wait_for_work(work, self.devices.device_type, self._watched.timeout)
        self._record.note("runs", self.begun, what)

    def flush(self) -> None:
        """Wait until all that was sent has left."""
        with self._failures("what it has sent", self.begun):
            for work, _ in self._leaving:
                wait_for_work(work, self.devices.device_type, self._watched.timeout)
        self._leaving.clear()

    def _name(self, axis: str, place: int) -> int:
        """The number that torch gives the rank at a place along an axis."""
        return int(self.devices.mesh.flatten()[self.peer(axis, place)])

    def wait(self, number: int, work: Any) -> None:  # noqa: ANN401 - torch does not name its type
        """Wait until a collective has ended; on a device, until what follows will see its end."""
        call = self.end(number)
        self._record.note("waits", number + 1, str(call))
        with self._failures(call, number):
            wait_for_work(work, self.devices.device_type, self._watched.timeout)
        self._record.note("runs", self.begun, str(call))

    def finish(self) -> None:
        """Wait at the end for all ranks: one that leaves early breaks connections that others need.

        Raises RankError for one that has not come to its end.
        """
        self.check_pending()
        self._record.note("ends", self.begun, "")
        with self._failures("the end", self.begun):
            if self._agreement is not None:
                self._agreement.check(self.grid, self.begun, "", self._watched.timeout)
            if self._agreement is None or self._stages is not None:
                meet(self.devices.device_type, self._watched.timeout)

    def _agree(self, number: int, call: str) -> None:
        if self._agreement is not None:
            self._record.note("waits", number + 1, call)
            with self._failures(call, number):
                self._agreement.check(self.grid, number, call, self._watched.timeout)

    @contextlib.contextmanager
    def _failures(self, call: Call | str, number: int) -> Generator[None]:
        try:
            yield
        except RuntimeError as error:
            raise failure_of(error, str(call), number, self._watched.timeout) from error


@dataclass(frozen=True, slots=True)
class _UnderWay:
    """A collective that torch has begun."""

    mesh: ProcessMesh
    number: int
    work: Any
    result: torch.Tensor
    dtype: object

    def wait(self) -> Tensor:
        self.mesh.wait(self.number, self.work)
        return cast_result(self.result, self.dtype)


@dataclass(frozen=True, slots=True)
class _Messages:
    """Messages that torch has posted, and the rooms for what is received."""

    mesh: ProcessMesh
    axis: str
    places: Sequence[int]
    works: Sequence[Any]
    rooms: Sequence[torch.Tensor]
    forms: Sequence[Form]

    def wait(self, number: int) -> Tensor:
        if self.works[number] is not None:  # it has elements
            self.mesh.await_message(self.axis, self.places[number], self.works[number])
        return unpacked(self.rooms[number], self.forms[number])
