"""Start ranks as processes on this machine, watch them, and collect their results.

    answers = launch(Task("xg_runtime.steps:run", {...}, arrays), {"N_D": 2, "N_T": 2})

Only JSON and safetensors go between processes. They meet through a file and communicate over the
loopback interface. A rank that dies ends the job at once, one that hangs within the timeout; either
is named, and no process is left behind, even if this one is killed.

Tasks are JSON and safetensors. `multiprocessing` sends pickles and reports a lost rank by the
complaints of the others, and torch's own checks look at one group at a time.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

import xg_runtime
from xg_runtime.errors import InputError, RankError, RunError
from xg_runtime.interrupt import Interrupt
from xg_runtime.ranks.call import (
    SENT,
    Progress,
    calls,
    ended_early,
    rank_error,
    stall_error,
    waits,
)
from xg_runtime.ranks.folder import Folder, Note, read
from xg_runtime.ranks.grid import Grid
from xg_runtime.ranks.handshake import PATIENCE
from xg_runtime.ranks.task import Answer, Task
from xg_runtime.ranks.terms import Terms

# The processes of a job's ranks, as the launcher holds them.
#
# Where processes can be forked safely, one of them imports torch, which takes seconds, and forks
# into all ranks. It is the parent of theirs and tells the launcher what they ended with. Elsewhere
# every rank is started by itself.
#
# Launcher and ranks share a pair of sockets: what the launcher writes is the order, and when it
# closes its end, every rank ends itself. In the other direction come, from the process that forked,
# a line of process numbers, and a line `rank code` for each end.


CAN_FORK = sys.platform == "linux"  # not where system libraries forbid it, as on macOS
_WORKER: Final = ("-P", "-m", "xg_runtime.ranks.worker")


def groups_of(world: int) -> list[Sequence[int]]:
    """The ranks of each process to start."""
    return [range(world)] if CAN_FORK else [[rank] for rank in range(world)]


class Group:
    """Ranks that come from one process: itself where it is one, else forked from it."""

    def __init__(
        self, ranks: Sequence[int], environment: Mapping[str, str], order: bytes, output: int | None
    ) -> None:
        """Start them; `output` is where the first of them prints, None where this process does."""
        self.ranks = ranks
        self._pids: dict[int, int] = {}  # of those that were forked and run
        self._codes: dict[int, int] = {}
        self._received = b""
        self._ours, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, *_WORKER],
                env=environment,
                stdin=theirs.fileno(),
                stdout=output,
                stderr=output,
                start_new_session=True,  # Ctrl-C reaches the launcher alone, which passes it on
            )
        with contextlib.suppress(OSError):  # it is gone: its code will say so
            self._ours.sendall(order)
        self._ours.setblocking(False)

    def poll(self, rank: int) -> int | None:
        """Return what a rank ended with, None while it runs; -9 where signal 9 has ended it."""
        ended = self._process.poll()  # before the last lines are read, which it has then written
        self._read()
        return self._codes.get(rank, ended)

    def send(self, number: int) -> None:
        """Send a signal to every rank that runs."""
        if not self._pids:
            self._process.send_signal(number)
        for pid in self._pids.values():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    def end(self) -> None:
        """End all of it, and wait until it has."""
        self._read()
        if self._pids:  # their parent ends when it has seen them end
            self.send(signal.SIGKILL)
        else:
            self._process.kill()
        with contextlib.suppress(OSError):  # some systems mind that the other end is closed
            self._ours.shutdown(socket.SHUT_WR)  # ranks whose number has not come end by this
        self._process.wait()
        self._ours.setblocking(True)
        with contextlib.suppress(OSError):
            while self._ours.recv(4096):  # until no process holds the other end
                pass
        self._ours.close()

    def _read(self) -> None:
        """Take in the lines that have come."""
        with contextlib.suppress(OSError):
            while data := self._ours.recv(4096):
                self._received += data
        *lines, self._received = self._received.split(b"\n")
        for line in lines:
            numbers = [int(number) for number in line.split()]
            if self._pids or self._codes:
                rank, code = numbers
                self._codes[rank] = code
                self._pids.pop(rank)
            else:
                self._pids = dict(zip(self.ranks, numbers, strict=True))


@dataclass(frozen=True)
class RankProcess:
    """One rank of a group."""

    group: Group
    rank: int

    def poll(self) -> int | None:
        """Return what it ended with, None while it runs."""
        return self.group.poll(self.rank)


# Watching ranks that are processes: which of them is the reason why a job cannot continue.
#
# One rank's end ends the others within moments, each with an error of its own. The error of a rank
# that waits for others is an echo; the reason is a rank that was killed, that raised an error of
# its own, that neither ends nor continues, or that ended while others wait.


_GRACE: Final = 1.0  # seconds in which the reason is looked for behind an echo
_TAIL: Final = 5  # lines


class Process(Protocol):
    """The used methods of a process."""

    def poll(self) -> int | None:
        """Return its exit code, None while it runs; -9 where signal 9 has ended it."""
        ...


class Watch:
    """The processes of a job, by rank."""

    def __init__(
        self, grid: Grid, folder: Folder, processes: Sequence[Process], timeout: float
    ) -> None:
        """`timeout` bounds how long one rank may keep others waiting, in seconds."""
        self._grid = grid
        self._folder = folder
        self._processes = processes
        self._timeout = timeout
        self._ended: dict[int, int] = {}  # exit codes, in the order in which they were seen
        self._notes = {rank: (Note(), time.monotonic()) for rank in range(grid.count)}
        self._failing_since: float | None = None

    def look(self) -> bool:
        """Whether all ranks have ended well; raises RankError when they will not."""
        now = time.monotonic()
        for rank, process in enumerate(self._processes):
            code = process.poll()
            if code is not None:
                self._ended.setdefault(rank, code)
            note = read(self._folder.heartbeat(rank))
            if note != self._notes[rank][0]:
                self._notes[rank] = (note, now)
        failed = [rank for rank, code in self._ended.items() if code != 0]
        if failed:
            self._judge(failed, now)
        elif len(self._ended) < self._grid.count:
            self._check_progress(now)
        return not failed and len(self._ended) == self._grid.count

    def _judge(self, failed: list[int], now: float) -> None:
        """Raise the reason for which ranks have failed, once it is known."""
        reason = next((rank for rank in failed if not self._is_echo(rank)), None)
        if reason is not None:
            raise self._error(reason)
        if self._failing_since is None:
            self._failing_since = now
        if now - self._failing_since > _GRACE:
            raise self._silent(failed) or self._error(failed[0])

    def _is_echo(self, rank: int) -> bool:
        """Whether a rank has failed for what another one did; torch aborts where others left."""
        report = self._folder.read_report(rank)
        return report.is_echo if report else self._ended[rank] == -signal.SIGABRT

    def _silent(self, failed: list[int]) -> RankError | None:
        """The error of a rank that others came to wait for in vain."""
        for rank, (note, _) in self._notes.items():
            if rank not in self._ended and note.state in ("starts", "runs"):
                return self._stalled_rank_error(rank, failed)
        return self._early_exit_error(failed)

    def _check_progress(self, now: float) -> None:
        """Raise the error of a rank that has kept others waiting for too long."""
        alive = [rank for rank in self._notes if rank not in self._ended]
        late = [rank for rank in alive if self._age(rank, now) > self._patience(rank)]
        busy = [rank for rank in late if self._notes[rank][0].state in ("starts", "runs")]
        idle = [rank for rank in late if rank not in busy]
        if busy and (idle or self._ended):
            raise self._stalled_rank_error(busy[0], idle)
        waiting = [rank for rank in alive if self._notes[rank][0].state == "waits"]
        others = {self._notes[rank][0].state for rank in alive if rank not in waiting}
        if waiting and others == {"ends"} and min(self._age(r, now) for r in alive) > _GRACE:
            error = self._early_exit_error(waiting)
            assert error is not None
            raise error

    def _stalled_rank_error(self, rank: int, waiting: list[int]) -> RankError:
        """The error that a rank neither ends nor continues while others wait."""
        begun = self._notes[rank][0].begun
        error = stall_error(self._grid, rank, begun, self._patience(rank))
        details = [waits(self._grid, self._progress(other)) for other in waiting]
        return RankError(rank, error.message, details)

    def _early_exit_error(self, waiting: list[int]) -> RankError | None:
        """The error that a rank has ended while others wait for it in a collective."""
        for rank, (note, _) in self._notes.items():
            if note.state == "ends" and rank not in waiting:
                return ended_early(self._grid, rank, note.begun, self._progress(waiting[0]))
        return None

    def _age(self, rank: int, now: float) -> float:
        """For how long a rank has been doing what it does."""
        return now - self._notes[rank][1]

    def _patience(self, rank: int) -> float:
        starts = self._notes[rank][0].state == "starts"
        return max(PATIENCE, self._timeout) if starts else self._timeout

    def _progress(self, rank: int) -> Progress:
        note = self._notes[rank][0]
        return Progress(rank, note.begun, note.call)

    def _error(self, rank: int) -> RankError:
        """The error of a rank that has failed."""
        report = self._folder.read_report(rank)
        if report is not None:
            return report.error
        code = self._ended[rank]
        how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with {code}"
        error = rank_error(self._grid, rank, f"{how} {self._where(rank)}")
        return RankError(rank, error.message, self._tail(rank))

    def _where(self, rank: int) -> str:
        note = self._notes[rank][0]
        match note.state:
            case "starts":
                return "before its first collective"
            case "waits" if note.call.startswith(SENT):
                return f"while it waited for {note.call}"
            case "waits":
                return f"in its collective {note.begun}, {note.call}"
            case _:
                return f"after {calls(note.begun)}"

    def _tail(self, rank: int) -> list[str]:
        """The last lines that a rank has printed."""
        path = self._folder.said(rank)
        text = path.read_bytes().decode("utf-8", "replace") if path.is_file() else ""
        return [line for line in text.splitlines() if line.strip()][-_TAIL:]


_PAUSE: Final = 0.05  # seconds between two looks
_ENDED_BY_SIGNAL: Final = (130, -2, -15)


def launch(
    task: Task, sizes: Mapping[str, int], terms: Terms | None = None, *, aloud: bool = False
) -> list[Answer]:
    """Return what every rank answers, in rank order: row-major, the first axis outermost.

    `aloud` lets rank 0 print; what other ranks print is shown when they fail. SIGINT and SIGTERM
    are handed on to the ranks, a second one ends them.
    Raises RankError, InputError where torch is missing, KeyboardInterrupt.
    """
    if importlib.util.find_spec("torch") is None:
        raise InputError("ranks that are processes need torch: pip install 'xg[torch]'")
    grid, terms = Grid(dict(sizes)), terms or Terms()
    with tempfile.TemporaryDirectory(prefix="xg-ranks-") as name, Interrupt() as stop:
        folder = Folder(Path(name))
        folder.write_arrays(task.arrays)
        with _start_ranks(task, grid, terms, folder, aloud) as groups:
            _follow(groups, Watch(grid, folder, _by_rank(groups), terms.timeout), stop)
        return [folder.read_answer(rank) for rank in range(grid.count)]


def _follow(groups: Sequence[Group], watch: Watch, stop: Interrupt) -> None:
    """Wait for the end; hand a signal on once."""
    told = False
    try:
        while not watch.look():
            time.sleep(_PAUSE)
            if stop.requested and not told:
                told = True
                for group in groups:
                    group.send(signal.Signals[stop.requested])
    except RunError as error:
        codes = {process.poll() for process in _by_rank(groups)}
        if told and codes & set(_ENDED_BY_SIGNAL):
            raise KeyboardInterrupt(stop.requested) from error
        raise


def _by_rank(groups: Sequence[Group]) -> list[RankProcess]:
    return [RankProcess(group, rank) for group in groups for rank in group.ranks]


@contextlib.contextmanager
def _start_ranks(
    task: Task, grid: Grid, terms: Terms, folder: Folder, aloud: bool
) -> Generator[list[Group]]:
    """Start the processes of all ranks, in rank order, and end them on exit."""
    groups: list[Group] = []
    order = _order(task, grid, terms, folder)
    try:
        for ranks in groups_of(grid.count):
            line = json.dumps(order | {"ranks": list(ranks)}).encode() + b"\n"
            with folder.said(ranks[0]).open("wb") as said:
                output = None if aloud and 0 in ranks else said.fileno()
                groups.append(Group(ranks, _environment(grid.count), line, output))
        yield groups
    finally:
        for group in groups:
            group.end()


def _order(task: Task, grid: Grid, terms: Terms, folder: Folder) -> dict[str, object]:
    """The input of a worker."""
    return {
        "folder": str(folder.path),
        "sizes": dict(grid.sizes),
        "timeout": terms.timeout,
        "device": terms.device,
        "checked": terms.checked,
        "communicators": terms.communicators,
        "function": task.function,
        "options": task.options,
        "facts": dict(task.facts),
    }


def _environment(world: int) -> dict[str, str]:
    """The variables that torchrun would set for all, this package's path, and the interface."""
    here = str(Path(xg_runtime.__file__).parents[1])
    path = os.pathsep.join([here, *filter(None, sys.path)])  # ranks find what this process finds
    usual = {
        "OMP_NUM_THREADS": "1",
        "GLOO_SOCKET_IFNAME": "lo0" if sys.platform == "darwin" else "lo",
        "TORCH_CPP_LOG_LEVEL": "ERROR",
    }
    place = {
        "WORLD_SIZE": str(world),
        "LOCAL_WORLD_SIZE": str(world),
        "PYTHONPATH": path,
    }
    return usual | os.environ | place
