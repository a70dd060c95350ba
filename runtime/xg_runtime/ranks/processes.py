"""The processes of a job's ranks, as the launcher holds them.

Where processes can be forked safely, one of them imports torch, which takes seconds, and forks
into all ranks. It is the parent of theirs and tells the launcher what they ended with. Elsewhere
every rank is started by itself.

Launcher and ranks share a pair of sockets: what the launcher writes is the order, and when it
closes its end, every rank ends itself. In the other direction come, from the process that forked,
a line of process numbers, and a line `rank code` for each end.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

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
