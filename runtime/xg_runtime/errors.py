"""Errors of a run: a printable line, and details where there are many, with the exit code.

InputError  1  the data given does not fit the program
RunError    4  the run itself failed: a non-finite value, a damaged checkpoint
FileError   5  a file could not be read or written
"""

from collections.abc import Sequence
from typing import ClassVar


class XgRuntimeError(Exception):
    """What every error of this package is; message and details are lines, safe to print."""

    exit_code: ClassVar[int] = 4

    def __init__(self, message: str, details: Sequence[str] = ()) -> None:
        """Escape what a terminal would obey: names of files and arrays are the user's."""
        self.message = _printable(message)
        self.details = tuple(map(_printable, details))
        super().__init__("\n  ".join((self.message, *self.details)))


def _printable(line: str) -> str:
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in line)


class InputError(XgRuntimeError):
    """Data that does not fit the program: a missing name, a wrong shape, an id out of range."""

    exit_code: ClassVar[int] = 1


class RunError(XgRuntimeError):
    """A run that could not go on."""

    exit_code: ClassVar[int] = 4


class NonFiniteError(RunError):
    """A number that became NaN or infinite at `step` (from 1); `tensor` is where, by name."""

    def __init__(self, message: str, tensor: str, step: int) -> None:
        """Keep the place as data, so that the caller can show its line."""
        super().__init__(f"step {step}: {message}")
        self.tensor = tensor
        self.step = step


class CheckpointError(RunError):
    """A checkpoint that is damaged, or that belongs to another run."""


class FileError(XgRuntimeError):
    """A file that could not be read or written."""

    exit_code: ClassVar[int] = 5
