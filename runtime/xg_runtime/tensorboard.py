"""The training log as TensorBoard reads it: its own files of events, written without it.

    with TensorBoardLog(folder / "log.jsonl", keep_until=-1) as log: ...

Every number of a record is a scalar under its name. A resumed run begins a file of its own, which
lets TensorBoard forget the steps that are done again.
"""

import struct
import time
from functools import cache
from pathlib import Path

from xg_runtime import files
from xg_runtime.log import Log, Record

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
