"""The file that `torch.export.save` writes, opened as data: JSON and raw numbers, no pickle.

`torch.export.load` unpickles the example inputs and hands the texts of symbolic sizes to `eval`,
so a file can run code of its author. Here nothing of a file is ever run, and torch is not needed.
"""

from __future__ import annotations

import io
import json
import math
import zipfile
from collections import Counter
from collections.abc import Mapping
from typing import Any, Final, cast

import numpy as np

from xg.diagnostics.lazy_dataclass import dataclass
from xg_runtime.module import Array

SCHEMA: Final = 8  # the major version of the serialized graph that is read here
Json = Mapping[str, Any]

# torch's numbers of element types. NumPy lacks bfloat16, which is the upper half of a float32.
BFLOAT16: Final = 13
DTYPES: Final[Mapping[int, str]] = {
    1: "u1",
    2: "i1",
    3: "i2",
    4: "i4",
    5: "i8",
    6: "f2",
    7: "f4",
    8: "f8",
    12: "?",
    BFLOAT16: "u2",
}


PART: Final = 2**20  # bytes of weights that are read at once
FREE: Final = 2**26  # numbers that any archive may have, views of others included
TIMES_AT_MOST: Final = 8  # as many as it has bytes, beyond that: weights may share their storage


class Damaged(Exception):
    """A file that is not what it should be, and why."""


@dataclass(frozen=True)
class Archive:
    """The graph as JSON, and every parameter, buffer and constant by its name in the model.

    `tied` names tensors that are another one, and which.
    """

    program: Json
    arrays: Mapping[str, Array]
    tied: Mapping[str, str]


# Raised by json, NumPy and zipfile on bytes that are cut, flipped, or packed in an unknown way.
_DAMAGE: Final = (
    *(KeyError, TypeError, AttributeError, ValueError, IndexError, EOFError, OSError),
    RuntimeError,  # also for a version of zip that there is not, and for a text too deep to read
)


def read_archive(data: bytes) -> Archive:
    """Open the bytes of a `.pt2` file; raises Damaged."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            if sum(member.compress_size for member in archive.infolist()) > len(data):
                raise Damaged("its members claim to be more than it has")
            return _read(archive)
    except zipfile.BadZipFile:
        raise Damaged("it is not an archive") from None
    except _DAMAGE as error:
        raise Damaged(f"it is damaged ({type(error).__name__})") from None


def _read(archive: zipfile.ZipFile) -> Archive:
    names = archive.namelist()
    if len({*names}) < len(names):
        raise Damaged("it holds two members of one name")
    models = [name for name in names if name.endswith("/models/model.json")]
    if not models:
        old = "serialized_exported_program.json" in names
        why = (
            "torch before 2.9 wrote it; export it again" if old else "it holds no models/model.json"
        )
        raise Damaged(why)
    root = models[0].removesuffix("models/model.json")
    program = _json(archive, models[0])
    version = program["schema_version"]["major"]
    if version != SCHEMA:
        raise Damaged(f"its schema has version {version}, and {SCHEMA} is read here")
    arrays: dict[str, Array] = {}
    tied: dict[str, str] = {}
    for kind in ("weights", "constants"):
        config = f"{root}data/{kind}/model_{kind}_config.json"
        if config in names:
            entries = cast("Mapping[str, Json]", _json(archive, config)["config"])
            arrays |= _arrays(archive, f"{root}data/{kind}/", entries)
            tied |= _tied(entries)
    return Archive(program, arrays, tied)


def _tied(entries: Mapping[str, Json]) -> dict[str, str]:
    """Names of one tensor: all but the first, and the first."""
    first: dict[str, str] = {}
    tied: dict[str, str] = {}
    for name, entry in entries.items():
        meta = entry["tensor_meta"]
        where = ("dtype", "sizes", "strides", "storage_offset")
        place = json.dumps([entry["path_name"], *(meta[each] for each in where)])
        if first.setdefault(place, name) != name:
            tied[name] = first[place]
    return tied


def _json(archive: zipfile.ZipFile, name: str) -> Json:
    return cast("Json", json.loads(_bytes(archive, name)))


def _bytes(archive: zipfile.ZipFile, name: str) -> bytes:
    _check_stored(archive, name)
    return archive.read(name)


def _storage(archive: zipfile.ZipFile, name: str) -> Array:
    """The bytes of a member, read in parts: two copies of large weights need much memory."""
    _check_stored(archive, name)
    data = np.empty(archive.getinfo(name).file_size, np.uint8)
    with archive.open(name) as member:
        for first in range(0, data.size, PART):
            part = data[first : first + PART]
            part[:] = np.frombuffer(member.read(part.size), np.uint8)
    return data


def _check_stored(archive: zipfile.ZipFile, name: str) -> None:
    # torch stores and never compresses: a compressed entry could claim any size.
    member = archive.getinfo(name)
    if member.compress_type != zipfile.ZIP_STORED or member.file_size != member.compress_size:
        raise Damaged("it is compressed, which torch.export.save never does")


def _arrays(archive: zipfile.ZipFile, folder: str, entries: Mapping[str, Json]) -> dict[str, Array]:
    arrays: dict[str, Array] = {}
    stored: dict[str, Array] = {}
    used = Counter(entry["path_name"] for entry in entries.values())
    claimed = 0
    for name, entry in entries.items():
        if entry["use_pickle"]:
            raise Damaged(f"{name} is pickled, and nothing is unpickled here")
        path = folder + entry["path_name"]
        if path not in stored:
            stored[path] = _storage(archive, path)
        claimed += math.prod(int(size["as_int"]) for size in entry["tensor_meta"]["sizes"])
        if claimed > max(FREE, TIMES_AT_MOST * sum(map(len, stored.values()))):
            raise Damaged(f"its weights claim to be {claimed:,} numbers, and it has far fewer")
        view = _array(stored[path], entry["tensor_meta"])
        alone = used[entry["path_name"]] == 1 and view.flags.c_contiguous
        arrays[name] = view if alone else np.array(view)
    return arrays


def _array(data: Array, meta: Json) -> Array:
    """A tensor inside the storage that it may share with others."""
    if meta["dtype"] not in DTYPES:
        raise Damaged(f"element type {meta['dtype']} is unknown to NumPy")
    storage = data.view(np.dtype(DTYPES[meta["dtype"]]).newbyteorder("<"))
    shape = [int(size["as_int"]) for size in meta["sizes"]]
    strides = [int(size["as_int"]) for size in meta["strides"]]
    offset = int(meta["storage_offset"]["as_int"])
    last = offset + sum((size - 1) * step for size, step in zip(shape, strides, strict=True))
    if min(shape, default=1) < 0 or min(strides, default=1) < 0 or offset < 0:
        raise Damaged("a weight has a negative size")
    if math.prod(shape) and last >= storage.size:
        raise Damaged("a weight is cut off")
    if not math.prod(shape):
        return np.zeros(shape, storage.dtype)
    steps = [step * storage.itemsize for step in strides]
    view = np.lib.stride_tricks.as_strided(storage[offset:], shape, steps)
    if meta["dtype"] == BFLOAT16:
        return (view.astype("u4") << 16).view("f4")
    return view.astype(storage.dtype.newbyteorder("="), copy=False)
