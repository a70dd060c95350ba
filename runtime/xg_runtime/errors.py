"""Errors of a run: a printable line, and details where there are many, with the exit code.

InputError  1  the data given does not fit the program
RunError    4  the run itself failed: a non-finite value, a damaged checkpoint, a lost rank
FileError   5  a file could not be read or written
"""

from __future__ import annotations

import traceback
from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import Final

__all__ = [
    "XgRuntimeError",
    "InputError",
    "RunError",
    "NonFiniteError",
    "CheckpointError",
    "RankError",
    "FileError",
]


class XgRuntimeError(Exception):
    """The base of every error of this package; message and details are lines, safe to print."""

    exit_code: int = 4

    def __init__(self, message: str, details: Sequence[str] = ()) -> None:
        """Escape what a terminal would obey: names of files and arrays are the user's."""
        self.message = _printable(message)
        self.details = tuple(map(_printable, details))
        super().__init__("\n  ".join((self.message, *self.details)))


def _printable(line: str) -> str:
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in line)


class InputError(XgRuntimeError):
    """Data that does not fit the program: a missing name, a wrong shape, an id out of range."""

    exit_code: int = 1


class RunError(XgRuntimeError):
    """A run that could not continue."""

    exit_code: int = 4


class NonFiniteError(RunError):
    """A number that became NaN or infinite at `step` (from 1); `tensor` is where, by name."""

    def __init__(self, message: str, tensor: str, step: int) -> None:
        """Keep the place as data, so that the caller can show its line."""
        super().__init__(f"step {step}: {message}")
        self.reason = message
        self.tensor = tensor
        self.step = step


class CheckpointError(RunError):
    """A checkpoint that is damaged, or that belongs to another run."""


class RankError(RunError):
    """The error that ended a program of many ranks; `rank` is its origin, `details` has others.

    If that rank raised an error, the exit code is that error's (3 for a bug), and `facts` are its
    kind and those of its attributes that are words or numbers.
    """

    def __init__(
        self,
        rank: int,
        message: str,
        details: Sequence[str] = (),
        *,
        exit_code: int = 4,
        facts: Mapping[str, str | int | float] | None = None,
    ) -> None:
        """`message` names the rank."""
        super().__init__(message, details)
        self.rank = rank
        self.exit_code = exit_code
        self.facts = dict(facts or {})

    @classmethod
    def of(cls, rank: int, name: str, error: Exception) -> RankError:
        """The error that a rank, called `name`, raised `error`."""
        attributes = {key: value for key, value in vars(error).items() if key not in _TEXT}
        facts = {
            key: value for key, value in attributes.items() if isinstance(value, str | int | float)
        }
        facts["kind"] = type(error).__name__
        if isinstance(error, XgRuntimeError):
            code = error.exit_code
            return cls(rank, f"{name}: {error.message}", error.details, exit_code=code, facts=facts)
        frames = traceback.extract_tb(error.__traceback__)[-3:]
        if isinstance(error, TypeError | ValueError) and _is_refusal(frames[-1]):
            return cls(rank, f"{name}: {error}", exit_code=1, facts=facts)
        places = [f"at {PurePath(frame.filename).name}:{frame.lineno}" for frame in frames]
        message = f"{name}: internal error: {type(error).__name__}: {error}"
        report = "This is a bug in xg. Please report it, with this text and the file."
        return cls(rank, message, [*reversed(places), report], exit_code=3, facts=facts)


_TEXT: Final = ("message", "details", "exit_code")


def _is_refusal(frame: traceback.FrameSummary) -> bool:
    """Whether a generated module, whose file is called `<…>`, refuses what it got."""
    return frame.filename.startswith("<") and (frame.line or "").startswith("raise ")


class FileError(XgRuntimeError):
    """A file that could not be read or written."""

    exit_code: int = 5
