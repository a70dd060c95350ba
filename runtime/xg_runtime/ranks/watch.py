"""Watching ranks that are processes: which of them is the reason why a job cannot continue.

One rank's end ends the others within moments, each with an error of its own. The error of a rank
that waits for others is an echo; the reason is a rank that was killed, that raised an error of its
own, that neither ends nor continues, or that ended while others wait.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Sequence
from typing import Final, Protocol

from xg_runtime.errors import RankError
from xg_runtime.ranks import heartbeat
from xg_runtime.ranks.disagreement import (
    SENT,
    Progress,
    calls,
    ended_early,
    rank_error,
    stall_error,
    waits,
)
from xg_runtime.ranks.folder import Folder
from xg_runtime.ranks.grid import Grid
from xg_runtime.ranks.handshake import PATIENCE
from xg_runtime.ranks.heartbeat import Note

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
            note = heartbeat.read(self._folder.heartbeat(rank))
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
