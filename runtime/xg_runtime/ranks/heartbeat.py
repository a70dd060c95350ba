"""The state of a rank, in a small file that its launcher reads when it hangs or dies."""

from __future__ import annotations

import mmap
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, cast, get_args

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
