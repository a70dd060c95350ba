"""The folder in which a launcher and its ranks leave things for each other, all of it data."""

from __future__ import annotations

import json
import mmap
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, cast, get_args

from xg_runtime import files, tensorfile
from xg_runtime.errors import RankError
from xg_runtime.module import Arrays
from xg_runtime.ranks.comm_counters import CommCounters
from xg_runtime.ranks.task import Answer


@dataclass(frozen=True)
class Report:
    """Why a rank ended; `is_echo` where it is because another one did."""

    error: RankError
    is_echo: bool


@dataclass(frozen=True)
class Folder:
    """The files of one job."""

    path: Path

    @property
    def store(self) -> Path:
        """Where the ranks meet."""
        return self.path / "store"

    def heartbeat(self, rank: int) -> Path:
        """The path of a rank's heartbeat."""
        return self.path / f"rank-{rank}.record"

    def said(self, rank: int) -> Path:
        """The printed output of a rank."""
        return self.path / f"rank-{rank}.said"

    def write_arrays(self, arrays: Arrays) -> None:
        """Leave the arrays of a task."""
        (self.path / "task.safetensors").write_bytes(tensorfile.pack(arrays))

    def read_arrays(self) -> Arrays:
        """The arrays of the task."""
        return tensorfile.unpack(files.read(self.path / "task.safetensors"))

    def write_answer(self, rank: int, answer: Answer, counters: CommCounters) -> None:
        """Leave what a rank has found, and what it has communicated."""
        (self.path / f"rank-{rank}.safetensors").write_bytes(tensorfile.pack(answer.arrays))
        text = json.dumps({"facts": answer.facts, "counts": counters.rows()})
        (self.path / f"rank-{rank}.json").write_text(text, encoding="utf-8")

    def read_answer(self, rank: int) -> Answer:
        """The answer of a rank."""
        arrays = tensorfile.unpack(files.read(self.path / f"rank-{rank}.safetensors"))
        rest: dict[str, Any] = json.loads(files.read(self.path / f"rank-{rank}.json"))
        return Answer(arrays, rest["facts"], CommCounters.of_rows(rest["counts"]))

    def write_report(self, rank: int, report: Report) -> None:
        """Leave the reason of a rank's end."""
        error = report.error
        data = {
            "rank": error.rank,
            "message": error.message,
            "details": error.details,
            "exit_code": error.exit_code,
            "facts": error.facts,
            "is_echo": report.is_echo,
        }
        files.write(self.path / f"rank-{rank}.report", json.dumps(data).encode())

    def read_report(self, rank: int) -> Report | None:
        """The reason of a rank's end, if it has left one."""
        path = self.path / f"rank-{rank}.report"
        if not path.is_file():
            return None
        data: dict[str, Any] = json.loads(files.read(path))
        error = RankError(
            data["rank"],
            data["message"],
            data["details"],
            exit_code=data["exit_code"],
            facts=data["facts"],
        )
        return Report(error, data["is_echo"])


# The state of a rank, in a small file that its launcher reads when it hangs or dies.


# starts: not joined yet; runs: computes; waits: in a collective; ends: waits for others at its end
State = Literal["starts", "runs", "waits", "ends"]

_ROOM: Final = 512  # bytes


@dataclass(frozen=True, slots=True)
class Note:
    """A state, how many collectives were begun, and the last of them."""

    state: State = "starts"
    begun: int = 0
    call: str = ""


class Heartbeat:
    """The file of one rank."""

    def __init__(self, path: Path) -> None:
        """Create the file."""
        path.write_bytes(b" " * _ROOM)
        with path.open("r+b") as file:
            self._room = mmap.mmap(file.fileno(), _ROOM)  # to note costs no call of the system
        self.note("starts", 0, "")

    def note(self, state: State, begun: int, call: str) -> None:
        """Say what this rank does from now on."""
        line = f"{state}\t{begun}\t{call}".encode()[: _ROOM - 1]
        self._room[:] = line.ljust(_ROOM - 1) + b"\n"

    def close(self) -> None:
        """Say nothing more."""
        self._room.close()


class NoHeartbeat:
    """A heartbeat that is not recorded."""

    def note(self, state: State, begun: int, call: str) -> None:
        """Say nothing."""


def read(path: Path) -> Note:
    """The state of a rank; before it has written one, it starts."""
    try:
        line = path.read_bytes().decode("utf-8", "replace")
    except OSError:
        return Note()
    state, _, rest = line.rstrip().partition("\t")
    begun, _, call = rest.partition("\t")
    if state not in get_args(State) or not begun.isdigit():
        return Note()
    return Note(cast(State, state), int(begun), call)
