"""Print results on standard output, and messages for people on standard error."""

from __future__ import annotations

import io
import json
import os
import re
import sys
from collections.abc import Iterable
from typing import Final, Literal, TextIO

from xg.diagnostics.diagnostic import Diagnostic, render
from xg.diagnostics.terminal import columns_of, fold, printable, width

ColorChoice = Literal["auto", "always", "never"]
_VERDICTS: Final = (  # made a pattern only where a result is colored
    r"(?P<good>^ok(?=  )|\bok$|\ball proven$|\bgradients proven$|(?<=  )proven$"
    r"|\bagree(?=: |, in bits| with the )|\b(?P<n>\d+) of (?P=n) gradients agree\b|\btrue(?=, )"
    r"|\bare equal$|\byes(?=, |$)|\ball as the document says$)"
    r"|^missing(?=  )|\bFAILED\b|\bDIFFERS?\b|\bFALSE\b|\bNOT (?:NEEDED|proven)\b|\bNO(?=: )"
    r"|\bfailed(?=: |$)|\b\d+ errors?(?=$|, )|\bBUT IT IS TRUE\b"
)


class Console:
    """The two streams, in UTF-8 and with `\\n` everywhere, and whether they may be colored."""

    def __init__(self, color: ColorChoice = "auto") -> None:
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, io.TextIOWrapper):
                stream.reconfigure(encoding="utf-8", errors="backslashreplace", newline="\n")
        self.color = _uses_color(color, sys.stderr)
        self.colored_results = _uses_color(color, sys.stdout)
        self._working = False

    def working(self, text: str) -> None:
        """Say on a terminal, in one line, what takes time now; the next output erases it."""
        columns = columns_of(sys.stderr)
        if columns is None or os.environ.get("TERM") == "dumb":
            return
        sys.stdout.flush()
        sys.stderr.write(f"\r{_cut(printable(text), columns - 1)}\x1b[K")
        sys.stderr.flush()
        self._working = True

    def _erase(self) -> None:
        if self._working:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
            self._working = False

    def write(self, text: str) -> None:
        """Write a result without changing it."""
        self._erase()
        sys.stdout.write(text)

    def write_bytes(self, data: bytes) -> None:
        """A result that may be no text."""
        self._erase()
        sys.stdout.flush()
        sys.stdout.buffer.write(data)

    def stream(self, text: str) -> None:
        """A part of a result that is to be seen at once."""
        self._erase()
        sys.stdout.write(text)
        sys.stdout.flush()

    def say(self, line: str = "") -> None:
        """A line of a result; on a terminal as many as it needs."""
        self._erase()
        _write(sys.stdout, line)

    def say_lines(self, lines: Iterable[str]) -> None:
        """Lines of a result."""
        for line in lines:
            self.say(line)

    def judge(self, line: str) -> None:
        """A line with a verdict: green if it is good, red if it is bad."""
        self.judge_lines([line])

    def judge_lines(self, lines: Iterable[str]) -> None:
        """Lines with verdicts."""
        for line in "\n".join(lines).split("\n"):
            self.say(re.sub(_VERDICTS, _paint_verdict, line) if self.colored_results else line)

    def note(self, line: str) -> None:
        """A line for people."""
        self._erase()
        sys.stdout.flush()
        _write(sys.stderr, line)

    def diagnose(self, diagnostics: Iterable[Diagnostic]) -> None:
        """Print errors for people."""
        self._erase()
        sys.stdout.flush()
        sys.stderr.write(render(diagnostics, self.color, columns_of(sys.stderr)) + "\n")


def _write(stream: TextIO, text: str) -> None:
    columns = columns_of(stream)
    for line in text.split("\n"):
        stream.write("\n".join(fold(line, columns)) + "\n")


def _cut(text: str, columns: int) -> str:
    """The beginning of a text that is too long: a line that wraps could not be erased."""
    if width(text) <= columns:
        return text
    while width(text) >= columns:
        text = text[:-1]
    return f"{text}…"


def _paint_verdict(verdict: re.Match[str]) -> str:
    return f"\x1b[{32 if verdict['good'] else '1;31'}m{verdict[0]}\x1b[0m"


def _uses_color(choice: ColorChoice, stream: TextIO) -> bool:
    if choice != "auto":
        return choice == "always"
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    return stream.isatty() and os.environ.get("TERM") != "dumb"


# JSON as commands print it: one document, a line for each entry, no spelling of Greek letters.


def json_text(document: object) -> str:
    """The document, ending in a newline; NaN and infinity are null, which JSON has."""
    return json.dumps(document, ensure_ascii=False, indent=1, allow_nan=False) + "\n"
