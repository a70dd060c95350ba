"""The output of a command: results on standard output, messages for people on standard error."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterable
from typing import Literal, TextIO

from xg.diagnostics.diagnostic import Diagnostic, render

ColorChoice = Literal["auto", "always", "never"]


class Console:
    """The two streams, in UTF-8 and with `\\n` everywhere, and whether they may be coloured."""

    def __init__(self, color: ColorChoice = "auto") -> None:
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, io.TextIOWrapper):
                stream.reconfigure(encoding="utf-8", errors="backslashreplace", newline="\n")
        self.color = _colored(color, sys.stderr)

    def write(self, text: str) -> None:
        """A result, as it is."""
        sys.stdout.write(text)

    def write_bytes(self, data: bytes) -> None:
        """A result that may be no text."""
        sys.stdout.flush()
        sys.stdout.buffer.write(data)

    def stream(self, text: str) -> None:
        """A part of a result that is to be seen at once."""
        sys.stdout.write(text)
        sys.stdout.flush()

    def say(self, line: str = "") -> None:
        """A line of a result."""
        sys.stdout.write(line + "\n")

    def note(self, line: str) -> None:
        """A line for people."""
        sys.stdout.flush()
        sys.stderr.write(line + "\n")

    def diagnose(self, diagnostics: Iterable[Diagnostic]) -> None:
        """Print errors for people."""
        self.note(render(diagnostics, self.color))


def _colored(choice: ColorChoice, stream: TextIO) -> bool:
    if choice != "auto":
        return choice == "always"
    plain = "NO_COLOR" in os.environ or os.environ.get("TERM") == "dumb"
    return stream.isatty() and not plain
