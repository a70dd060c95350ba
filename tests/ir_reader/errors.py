"""Errors of reading a printed IR."""

from __future__ import annotations


class UnreadableIR(Exception):
    """A text that is no printed IR: the line, what was expected there, and what was found."""

    def __init__(self, line: int, message: str) -> None:
        super().__init__(f"line {line}: {message}")
        self.line = line
        self.message = message


class Meaningless(Exception):
    """Something that can be read and means nothing: a name of no value, a product of no sizes."""

    def __init__(self, message: str, line: int | None = None) -> None:
        super().__init__(message)
        self.line = line
