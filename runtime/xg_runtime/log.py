"""Log a training run: as JSON lines, for TensorBoard, and as progress on the terminal.

    {"step": 1, "loss": 5.54, "rate": 0.001, "norm": 2.1}      one a step, counted from 1
    {"step": 100, "validation": 4.02}                          when evaluated
    {"step": 100, "validation": 0.31, "accuracy": 0.87}        of a model that says yes or no

`step` is how many steps were done. Times are left out, so that the log of a resumed run equals,
byte for byte, the log of a run that was never interrupted.
"""

from __future__ import annotations

import json
import os
import shutil
import struct
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Final, Self, TextIO, TypeAlias, cast

from xg_runtime import files

Record: TypeAlias = dict[str, float]


class Log:
    """An open log; each record is handed to the system at once, `sync` puts it on the disk."""

    def __init__(self, path: Path, *, keep_until: int) -> None:
        """Open `path` with the records of its first `keep_until` steps; later ones go.

        A kill can leave records of steps that will be done again, or half a line. Raises FileError.
        """
        self.records = [record for record in read(path) if record["step"] <= keep_until]
        files.write(path, b"".join(map(_line, self.records)))
        with files.file_errors("write"):
            self._file = path.open("ab", buffering=0)

    def __enter__(self) -> Self:
        """Return the log."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close the log."""
        self.close()

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def add(self, record: Record) -> None:
        """Append one record; raises FileError."""
        self.records.append(record)
        with files.file_errors("write"):
            self._file.write(_line(record))

    def sync(self) -> None:
        """Flush everything to disk: a checkpoint may not be newer than its log."""
        with files.file_errors("write"):
            os.fsync(self._file.fileno())


class NoLog(Log):
    """The log of a rank that writes none: its records are kept, and nothing more."""

    def __init__(self) -> None:
        """Begin without records."""
        self.records: list[Record] = []

    def close(self) -> None:
        """Close nothing."""

    def add(self, record: Record) -> None:
        """Keep one record."""
        self.records.append(record)

    def sync(self) -> None:
        """Flush nothing."""


def read(path: Path) -> list[Record]:
    """Return the records of a log up to the first line that is cut or damaged; [] without one."""
    records: list[Record] = []
    if not path.exists():
        return records
    for line in files.read(path).splitlines(keepends=True):
        record = _record(line)
        if record is None:
            break
        records.append(record)
    return records


def _record(line: bytes) -> Record | None:
    try:
        record = json.loads(line)
    except ValueError:
        return None
    whole = line.endswith(b"\n") and isinstance(record, dict) and "step" in record
    return cast(Record, record) if whole else None


def _line(record: Record) -> bytes:
    return json.dumps(record).encode() + b"\n"


# The training log as TensorBoard reads it: its own files of events, written without it.
#
#     with TensorBoardLog(folder / "log.jsonl", keep_until=-1) as log: ...
#
# Every number of a record is a scalar under its name. A resumed run begins a file of its own, which
# lets TensorBoard forget the steps that are done again.


PREFIX = "events.out.tfevents."
POLYNOMIAL = 0x82F63B78  # of CRC-32C, bits reversed
MASK = 0xA282EAD8


class TensorBoardLog(Log):
    """A log whose records are events, too."""

    def __init__(self, path: Path, *, keep_until: int) -> None:
        """Open `path` as `Log` does, and a file of events beside it; raises FileError."""
        super().__init__(path, keep_until=keep_until)
        with files.file_errors("write"):
            if keep_until < 0:
                for old in path.parent.glob(f"{PREFIX}*"):
                    old.unlink()
            name = f"{PREFIX}{max(keep_until, 0):010}.xg"
            self._events = (path.parent / name).open("wb", buffering=0)
            self._events.write(frame_record(event(0, _text(3, b"brain.Event:2"))))
            self._events.write(frame_record(event(max(keep_until, 0) + 1, _text(7, b"\x08\x01"))))

    def close(self) -> None:
        """Close both files."""
        super().close()
        self._events.close()

    def add(self, record: Record) -> None:
        """Append one record; raises FileError."""
        super().add(record)
        scalars = {name: value for name, value in record.items() if name != "step"}
        with files.file_errors("write"):
            self._events.write(frame_record(event(int(record["step"]), _summary(scalars))))


def event(step: int, content: bytes) -> bytes:
    """An event of now: a message of protobuf, whose fields are the time, the step, the content."""
    return b"\x09" + struct.pack("<d", time.time()) + b"\x10" + _varint(step) + content


def frame_record(data: bytes) -> bytes:
    """A record of TensorFlow: its length and its bytes, each with a checksum."""
    length = struct.pack("<Q", len(data))
    return length + _checksum(length) + data + _checksum(data)


def _summary(scalars: Record) -> bytes:
    values = (
        _text(1, _text(1, name.encode()) + b"\x15" + struct.pack("<f", value))
        for name, value in scalars.items()
    )
    return _text(5, b"".join(values))


def _text(field: int, content: bytes) -> bytes:
    """A field of bytes, or a message."""
    return bytes([field << 3 | 2]) + _varint(len(content)) + content


def _varint(number: int) -> bytes:
    parts: list[int] = []
    while number > 127:
        parts.append(number & 127 | 128)
        number >>= 7
    return bytes([*parts, number])


def _checksum(data: bytes) -> bytes:
    """The masked CRC-32C, as TensorFlow writes it."""
    value = 0xFFFFFFFF
    for byte in data:
        value = _table()[(value ^ byte) & 255] ^ value >> 8
    value ^= 0xFFFFFFFF
    return struct.pack("<I", ((value >> 15 | value << 17) + MASK) & 0xFFFFFFFF)


@cache
def _table() -> list[int]:
    table = list(range(256))
    for _ in range(8):
        table = [value >> 1 ^ POLYNOMIAL * (value & 1) for value in table]
    return table


# The progress of a run: a bar on a terminal, otherwise a line every tenth of the way.
#
# step  120/300  ━━━━━━━━──────────  loss 2.81  validation 2.90 at step 100  18.3k tokens/s  0:21
# left
#
# A validation loss from an earlier step names that step.


_BAR: Final = 20
_REDRAW: Final = 0.1  # seconds
_PREFIXES: Final = ("", "k", "M", "G")
_LINES: Final = 10  # how many are written where there is no terminal


@dataclass
class Progress:
    """Reports steps `start` + 1 … `steps` to `stream`; `items` of `unit` are done in each."""

    stream: TextIO
    start: int
    steps: int
    items: int
    unit: str
    validation: float | None = None
    accuracy: float | None = None
    evaluated: int = 0  # the step that both were measured after
    _began: float = field(default_factory=time.perf_counter)
    _drawn: float = 0.0

    def show(self, step: int, loss: float) -> None:
        """Report that `step` is done, if it is time to."""
        now = time.perf_counter()
        if self.stream.isatty():
            if now - self._drawn >= _REDRAW or step == self.steps:
                self._drawn = now
                self.stream.write(f"\r{self._fit_line(step, loss, now)}\x1b[K")
                self.stream.flush()
        elif step % max(self.steps // _LINES, 1) == 0 or step == self.steps:
            self.stream.write(f"{self._line(step, loss, now, bar=False)}\n")
            self.stream.flush()

    def _fit_line(self, step: int, loss: float, now: float) -> str:
        """Return the line, cut to the terminal's width: no redraw erases a line that wraps."""
        columns = shutil.get_terminal_size().columns - 1  # behind the last one terminals wrap
        line = self._line(step, loss, now)
        if len(line) > columns:
            line = self._line(step, loss, now, bar=False)
        return line if len(line) <= columns else f"{line[: max(columns - 1, 0)]}…"

    def close(self) -> None:
        """Leave the bar's line."""
        if self._drawn:
            self.stream.write("\n")

    def speed(self, step: int) -> float:
        """Return items per second up to now, evaluation included."""
        passed = max(time.perf_counter() - self._began, 1e-9)
        return (step - self.start) * self.items / passed

    def _line(self, step: int, loss: float, now: float, *, bar: bool = True) -> str:
        width = len(str(self.steps))
        seconds_left = (self.steps - step) * (now - self._began) / max(step - self.start, 1)
        parts = [
            f"step {step:{width}}/{self.steps}",
            _bar(step / self.steps) if bar else "",
            f"loss {loss:.4f}",
            *self._evaluation(step),
            f"{_short(self.speed(step))} {self.unit}/s",
            f"{_clock(seconds_left)} left",
        ]
        return "  ".join(part for part in parts if part)

    def _evaluation(self, step: int) -> Iterator[str]:
        """Yield what validation gave, and after which step if that was an earlier one."""
        when = "" if self.evaluated == step else f" at step {self.evaluated}"
        if self.validation is not None:
            yield f"validation {self.validation:.4f}{when}"
        if self.accuracy is not None:
            yield f"accuracy {self.accuracy:.3f}{when}"


def _bar(part: float) -> str:
    done = round(part * _BAR)
    return "━" * done + "─" * (_BAR - done)


def _short(number: float) -> str:
    """Return three digits: 912, 1.23k, 18.3k, 1.02M.

    >>> [_short(x) for x in (9.3, 912.4, 1234, 18345, 999999, 1.02e6)]
    ['9.30', '912', '1.23k', '18.3k', '1.00M', '1.02M']
    """
    thousands = 0
    while number >= 999.5 and thousands < len(_PREFIXES) - 1:
        number /= 1000
        thousands += 1
    digits = 2 if number < 9.995 else 1 if number < 99.95 else 0
    return f"{number:.{digits}f}{_PREFIXES[thousands]}"


def _clock(seconds: float) -> str:
    whole = round(seconds)
    hours, rest = divmod(whole, 3600)
    minutes, left = divmod(rest, 60)
    return f"{hours}:{minutes:02}:{left:02}" if hours else f"{minutes}:{left:02}"
