"""The training log: one JSON object a line, appended as training goes.

    {"step": 1, "loss": 5.54, "rate": 0.001, "norm": 2.1}      one a step, counted from 1
    {"step": 100, "validation": 4.02}                          when evaluated
    {"step": 100, "validation": 0.31, "accuracy": 0.87}        of a model that says yes or no

`step` is how many steps were done. Times are left out, so that the log of a resumed run equals,
byte for byte, the log of a run that was never interrupted.
"""

import json
import os
from pathlib import Path
from types import TracebackType
from typing import Self, TypeAlias, cast

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
