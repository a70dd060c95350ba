"""One rank that is a process, joined to the others by torch.distributed."""

from __future__ import annotations

import contextlib
from collections import defaultdict
from collections.abc import Generator
from dataclasses import dataclass, field
from datetime import timedelta
from types import TracebackType
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh

from xg_runtime.ranks.agreement import Agreement
from xg_runtime.ranks.array_ops import Tensor
from xg_runtime.ranks.backend import TorchGroup, cast_result, flat, meet, wait_for_work
from xg_runtime.ranks.call import Call
from xg_runtime.ranks.disagreement import SENT
from xg_runtime.ranks.failure import failure_of
from xg_runtime.ranks.grid import Grid
from xg_runtime.ranks.heartbeat import Heartbeat, NoHeartbeat
from xg_runtime.ranks.mesh import set_process_mesh
from xg_runtime.ranks.messages import Lengths, receive, send
from xg_runtime.ranks.rank_mesh import RankMesh

_dist: Any = dist  # much of it has no annotations


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
        self, devices: DeviceMesh, watched: Watched | None = None, *, again: bool = False
    ) -> None:
        """`devices` has names for its axes, and this process is in it.

        `again`: the ranks were started before, and one of them was lost.
        """
        grid = Grid(dict(zip(devices.mesh_dim_names or (), devices.mesh.shape, strict=True)))
        super().__init__(grid, grid.number(devices.get_coordinate() or ()))
        self.devices = devices
        self.again = again
        # By torch's number of a rank and the name of what is sent:
        self._sent: defaultdict[tuple[int, str], Lengths] = defaultdict(Lengths)
        self._received: defaultdict[tuple[int, str], Lengths] = defaultdict(Lengths)
        self._leaving: list[tuple[Any, Tensor]] = []  # what must live until it has left
        self._watched = watched or Watched()
        self._record = self._watched.record
        self._agreement = self._watched.agreement
        self._groups = self._all_groups()

    def __enter__(self) -> ProcessMesh:
        set_process_mesh(self)  # autograd runs code in threads of its own, without our context
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
        number = self.begin(call)
        self._agree(number, str(call))
        with self._failures(call, number):
            copy = not donate and not call.kind.grows  # it is copied to its place in the result
            buffer = flat(x, self.devices.device_type, copy=copy)
            group = TorchGroup(self._groups[self.grid.group(self.place, call.axis)])
            work, result = call.kind.begin(group, buffer)
        self._record.note("runs", self.begun, str(call))
        tensor = result.view(call.kind.shape(tuple(x.shape), self.size(call.axis)))
        return _UnderWay(self, number, work, tensor, x.dtype)

    def _all_groups(self) -> dict[tuple[int, ...], Any]:
        """Make the process groups of this rank, by their members: of each axis, and of several.

        To make one, all processes have to come, and torch names it by how many each process has
        made. So every rank makes all of them before its program starts, in the order of the grid:
        stages of a pipeline run programs of their own, which use groups in another order.
        """
        timeout = timedelta(seconds=self._watched.timeout)
        names = [int(name) for name in self.devices.mesh.flatten()]
        groups: dict[tuple[int, ...], Any] = {}
        for axis in self.grid.sizes:
            groups.setdefault(self.grid.group(self.place, axis), self.devices.get_group(axis))
        for members in self.grid.joint_groups():
            group = _dist.new_group([names[place] for place in members], timeout=timeout)
            if self.place in members:
                groups[members] = group
        return groups

    def diverge(self, axis: str) -> None:
        """Note that from now on ranks along an axis run programs of their own: a pipeline.

        Collectives are compared among those of one stage; all ranks have to come here.
        """
        if self._stages is None and self._agreement is not None:
            timeout = self._watched.timeout
            self._agreement = Agreement.of_stage(self.grid, self.place, axis, timeout)
        super().diverge(axis)

    def send(self, x: Tensor, axis: str, place: int, name: str = "") -> None:
        """Begin to send to the rank at a place along an axis; `x` may change afterwards."""
        call = self.sending(x, axis)
        self._record.note("runs", self.begun, str(call))
        with self._failures(call, self.begun):
            target = self._name(axis, place)
            lengths = self._sent[target, name]
            self._leaving += send(x, target, self.devices.device_type, lengths)

    def receive(self, axis: str, place: int, name: str = "") -> Tensor:
        """Wait for what the rank at a place along an axis sends to this one next."""
        what = f"{SENT}{self.grid.describe(self.peer(axis, place))} sends"
        self._record.note("waits", self.begun + 1, what)
        with self._failures(what, self.begun):
            timeout = self._watched.timeout
            source = self._name(axis, place)
            device = self.devices.device_type
            found = receive(source, device, timeout, self._received[source, name])
        self._record.note("runs", self.begun, what)
        return found

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
