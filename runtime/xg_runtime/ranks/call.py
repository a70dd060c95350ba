"""One collective as every rank of a group has to call it, or one send as its ends have."""

from __future__ import annotations

import linecache
import math
from dataclasses import dataclass
from inspect import currentframe
from typing import Final

from xg_runtime.errors import InputError, RankError, RunError
from xg_runtime.ranks.array_ops import Tensor, is_array, type_name
from xg_runtime.ranks.grid import Grid
from xg_runtime.ranks.kinds import Kind

# Failures on one rank because of another; the launcher finds out which one.


class CollectiveFailed(RunError):
    """A collective that could not end because another rank is gone, hangs, or never came."""


def failure_of(error: Exception, call: str, number: int, timeout: float) -> Exception:
    """The failure that torch's error means, if it is about other ranks; otherwise itself."""
    said = peer_message(error, timeout)
    return CollectiveFailed(f"in collective {number + 1}, {call}: {said}") if said else error


def peer_message(error: Exception, timeout: float) -> str | None:
    """The part of other ranks in an error of torch, None if it is not about them."""
    text = str(error).lower()
    if "timed out" in text or "timeout" in text:
        return f"other ranks did not come within {timeout:g} s"
    if "connection" in text or "closed" in text or "broken pipe" in text or "reset" in text:
        return "another rank is gone"
    return None


# The element types that ranks can send; a head gives the index of one.
SENT_TYPES: Final = ("float32", "float64", "float16", "bfloat16", "int64", "int32", "bool")


@dataclass(frozen=True, slots=True)
class Call:
    """Kind, mesh axis, shape and element type of this rank's operand.

    `along` are the tensor's axes that are joined and cut, counted from the end: they do not reach
    the mesh, but ranks that differ in them would join different things.
    """

    kind: Kind
    axis: str
    shape: tuple[int, ...]
    dtype: str
    itemsize: int
    along: tuple[int, ...] = ()

    def payload(self, ranks: int) -> int:
        """Count the elements of what is given, or of the result if that is larger."""
        return math.prod(self.shape) * (ranks if self.kind.grows else 1)

    def __str__(self) -> str:
        along = f" along {', '.join(map(str, self.along))}" if self.along else ""
        return f"{self.kind.name} over {self.axis} of {self.dtype} {list(self.shape)}{along}"


@dataclass(frozen=True, slots=True)
class Form:
    """The properties of a tensor that its receiver has to know before it comes."""

    shape: tuple[int, ...]
    dtype: str
    is_array: bool

    @classmethod
    def of(cls, x: Tensor) -> Form:
        """Return the form of a tensor; raises InputError for a type that is not sent."""
        dtype = type_name(x.dtype)
        if dtype not in SENT_TYPES:
            raise InputError(f"a rank sends {', '.join(SENT_TYPES)} to another; found {dtype}")
        return cls(tuple(x.shape), dtype, is_array(x))

    def __str__(self) -> str:
        return f"{self.dtype} {list(self.shape)}"


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A tensor for the rank at a place along an axis.

    All messages to one rank under one `name` have the same form. The message that `opens` the name
    also sends the form, for which its receiver has to wait. Later messages don't need this.
    """

    x: Tensor
    place: int
    name: str
    opens: bool = False


@dataclass(frozen=True, slots=True)
class Incoming:
    """A tensor from the rank at a place along an axis, of the form of `like` if this is known."""

    place: int
    name: str
    opens: bool = False
    like: Tensor | None = None


# Errors of ranks that do not do the same: the same texts on every kind of mesh.


SENT: Final = "what "  # begins the note of a rank that waits for a send, not in a collective


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of a rank: its number, how many collectives it began, and the last of them.

    `code` is the line that began it, where that is known.
    """

    rank: int
    begun: int
    call: str
    code: str = ""


def rank_error(grid: Grid, rank: int, what: str) -> RankError:
    """The error that a rank did something."""
    return RankError(rank, f"{grid.describe(rank)} {what}")


def differing(grid: Grid, one: Progress, other: Progress) -> RankError:
    """Two ranks have called different collectives; the first of them is blamed."""
    who = f"where {grid.describe(other.rank)} called {other.call}"
    what = f"called {one.call} {who}, each as its collective {one.begun}"
    places = [f"{grid.describe(at.rank)}: {at.code}" for at in (one, other) if at.code]
    return RankError(one.rank, f"{grid.describe(one.rank)} {what}", places)


def calling() -> str:
    """The line outside of this package that is running; generated code names edge and diagram."""
    frame = currentframe()
    while frame is not None and frame.f_globals.get("__name__", "").startswith("xg_runtime."):
        frame = frame.f_back
    return "" if frame is None else _line(frame.f_code.co_filename, frame.f_lineno)


def _line(file: str, number: int) -> str:
    return linecache.getline(file, number).strip()


def ended_early(grid: Grid, ended: int, begun: int, waiting: Progress) -> RankError:
    """A rank has ended while another waits for it."""
    return rank_error(grid, ended, f"ended after {calls(begun)}, while {waits(grid, waiting)}")


def stall_error(grid: Grid, rank: int, begun: int, timeout: float) -> RankError:
    """A rank has taken longer than `timeout` seconds."""
    what = f"neither ended nor went on within {timeout:g} s after {calls(begun)}"
    return rank_error(grid, rank, what)


def waits(grid: Grid, stand: Progress) -> str:
    """The collective that a rank waits in, or whose parts it waits for, in words."""
    if stand.call.startswith(SENT):
        return f"{grid.describe(stand.rank)} waits for {stand.call}"
    return f"{grid.describe(stand.rank)} waits in its collective {stand.begun}, {stand.call}"


def calls(number: int) -> str:
    """The number of collectives, in words."""
    return "1 collective" if number == 1 else f"{number} collectives"
